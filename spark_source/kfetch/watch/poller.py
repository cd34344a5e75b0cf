"""Polls one broker through one watch session, in a thread of its own.

The loop runs while the broker leads watched partitions. It retries an unreachable broker with
back-off, because the broker may return. Metadata tells whether its partitions have moved. The
poller reports every failure to the registry, and the driver raises a permanent one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from kfetch.errors import BrokerError, ConnectionLost, KfetchError, WireError
from kfetch.fetch.fetcher import AcceptedReply, Fetcher
from kfetch.fetch.totals import Totals
from kfetch.model import Broker, FetchPosition, TopicPartition
from kfetch.options import SourceOptions
from kfetch.session.metadata import INVALID_SESSION_ID
from kfetch.watch.poll_pause import LONG_POLL_MS, REST_S, poll_pause_s
from kfetch.wire.retry import RetryPauses

log = logging.getLogger(__name__)


class PartitionRegistry(Protocol):
    """Gives a poller its partitions' positions and takes its replies. Pollers call from threads."""

    def take_position_changes(
        self, broker: Broker
    ) -> Mapping[TopicPartition, FetchPosition | None] | None:
        """Returns the changes for the broker's session; None if it leads no partition any more."""

    def accept_reply(self, broker: Broker, accepted: AcceptedReply) -> int:
        """Apply a reply, and return the number of partitions that moved. The broker is well."""

    def report_failure(self, broker: Broker, cause: KfetchError) -> bool:
        """Note that requests to the broker fail. Returns whether the cause tells more than earlier
        ones."""


class Poller:
    """Polls one broker."""

    def __init__(
        self,
        broker: Broker,
        registry: PartitionRegistry,
        options: SourceOptions,
        totals: Totals | None = None,
    ) -> None:
        self.broker = broker
        self._registry = registry
        # Operators can tell watch sessions from the sessions of tasks by the client id.
        self._network = replace(options.network, client_id=f"{options.network.client_id}-watch")
        limits = replace(options.fetch, max_bytes=1, min_bytes=1, max_wait_ms=LONG_POLL_MS)
        self._fetcher = Fetcher(broker, limits, self._network, totals=totals)
        self._backoff = RetryPauses.of(self._network)
        self._moved = False
        """Whether the last reply moved a partition."""
        self.asked_at: float | None = None
        """When the request left that has no reply yet: monotonic seconds."""
        self.resting = False
        """Whether the session rests until ``wake``, while its broker may have new records."""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"kfetch-watch-{broker.node_id}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """End the rest, so that the next poll leaves at once."""
        self._wake.set()

    def stop(self) -> None:
        """Stop polling and close the session. ``join`` waits for that."""
        self._stop.set()
        self._wake.set()

    def join(self, timeout_s: float) -> None:
        """Wait until the session is closed, at most ``timeout_s`` seconds."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._wake.clear()
                pause_s = self.poll()
                if pause_s is None:
                    return
                self._pause_and_rest(pause_s)
        except Exception as bug:  # a thread that died in silence would look like an idle topic
            log.exception("kfetch: the watch of %s died", self.broker)
            cause = KfetchError(f"the watch of {self.broker} died: {bug}")
            self._registry.report_failure(self.broker, cause)
        finally:
            self._fetcher.close()

    def _pause_and_rest(self, pause_s: float) -> None:
        if self._stop.wait(pause_s) or not self._moved:
            return
        self.resting = True
        self._wake.wait(REST_S)
        self.resting = False

    def poll(self) -> float | None:
        """Send one request and handle its reply.

        Returns the seconds until the next poll, or None if the broker leads no partition any more.
        """
        changes = self._registry.take_position_changes(self.broker)
        if changes is None:
            return None
        for tp, position in changes.items():
            self._fetcher.set_position(tp, position)
        self.asked_at = began = time.monotonic()
        try:
            accepted = self._exchange(began + self._network.request_timeout_s)
        except (ConnectionLost, WireError, BrokerError) as cause:
            return self._handle_failure(cause)
        finally:
            self.asked_at = None
        took_s = time.monotonic() - began
        pause_s = self._handle_reply(accepted, took_s) if accepted is not None else 0.0
        # A broker that throttles is not asked meanwhile, and so is not silent.
        return max(pause_s, self._fetcher.pause_s())

    def _exchange(self, deadline: float) -> AcceptedReply | None:
        self._fetcher.send(deadline)
        return self._fetcher.receive(deadline + LONG_POLL_MS / 1000)

    def _handle_reply(self, accepted: AcceptedReply, took_s: float) -> float:
        self._backoff = RetryPauses.of(self._network)
        moved, session = self._registry.accept_reply(self.broker, accepted), self._fetcher.status()
        self._moved = moved > 0
        return poll_pause_s(
            moved=moved,
            partitions=session.partitions,
            full=session.session_id == INVALID_SESSION_ID,
            record_bytes=sum(len(p.records) for p in accepted.partitions.values()),
            took_s=took_s,
        )

    def _handle_failure(self, cause: KfetchError) -> float:
        self._moved = False
        if self._registry.report_failure(self.broker, cause):
            log.warning("kfetch: watching %s: %s (kfetch retries)", self.broker, cause.message)
        return self._backoff.next_pause_s()
