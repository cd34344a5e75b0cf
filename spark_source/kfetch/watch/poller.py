"""One broker's watch session: poll after poll, in a thread of its own.

The loop never ends by itself while the broker has partitions: a broker that can't be reached is
tried again with back-off, for it may come back, and whether its partitions have moved is for
metadata to say. What can't heal is told to the desk, and the driver raises it.
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
from kfetch.fetch.stats import FetchStats
from kfetch.model import Broker, FetchPosition, TopicPartition
from kfetch.options import SourceOptions
from kfetch.session.metadata import INVALID_SESSION_ID
from kfetch.watch.pace import LONG_POLL_MS, REST_S, pause_s
from kfetch.wire.retry import RetryPauses

log = logging.getLogger(__name__)


class Desk(Protocol):
    """Where a poller gets its orders and leaves what it learned; safe to use from its thread."""

    def orders(self, broker: Broker) -> Mapping[TopicPartition, FetchPosition | None] | None:
        """What the session is to change; None when the broker has no partition any more."""

    def replied(self, broker: Broker, fetched: AcceptedReply) -> int:
        """Take a reply; how many partitions moved."""

    def partitions_of(self, broker: Broker) -> int:
        """How many partitions the session is to hold."""

    def failing(self, broker: Broker, cause: KfetchError | None) -> None:
        """The broker can't be asked; None: it can again."""


class Poller:
    """Polls one broker."""

    def __init__(self, broker: Broker, desk: Desk, options: SourceOptions, orphan: int) -> None:
        self.broker = broker
        self._desk = desk
        # A name of its own: an operator sees whose session it is, and tests count it apart.
        self._network = replace(options.network, client_id=f"{options.network.client_id}-watch")
        limits = replace(options.fetch, max_bytes=1, min_bytes=1, max_wait_ms=LONG_POLL_MS)
        self._fetcher = Fetcher(broker, limits, self._network, orphan=orphan)
        self._backoff = RetryPauses(self._network)
        self._refusals = 0
        self._failing = False
        self.resting = False
        """Whether it waits for a call: its broker may have news that nobody has asked for."""
        self._news = False
        self._called = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"kfetch-watch-{broker.node_id}", daemon=True
        )

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def call(self) -> None:
        """End the rest: somebody wants to know what is new."""
        self._called.set()

    def stop(self) -> None:
        """Poll no more, and close the session; ``join`` waits for that."""
        self._stop.set()
        self._called.set()

    def join(self, seconds: float) -> None:
        """Wait until the session is closed, for so long at most."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    @property
    def session(self) -> tuple[int, int]:
        """(id, epoch) of the session at the broker, id 0 for none."""
        return self._fetcher.session

    def stats(self) -> FetchStats:
        """What the session cost so far."""
        return self._fetcher.stats()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._called.clear()
                pause = self.poll()
                if pause is None:
                    return
                self._pause(pause)
        except Exception as bug:  # a watch that died in silence would look like an idle topic
            log.exception("kfetch: the watch of %s died", self.broker)
            self._desk.failing(self.broker, KfetchError(f"the watch of {self.broker} died: {bug}"))
        finally:
            self._fetcher.close()

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds) or not self._news:
            return
        self.resting = True
        self._called.wait(REST_S)
        self.resting = False

    def poll(self) -> float | None:
        """One request and its reply; seconds to wait before the next, None when it was the last."""
        orders = self._desk.orders(self.broker)
        if orders is None:
            return None
        for tp, position in orders.items():
            self._fetcher.want(tp, position)
        began = time.monotonic()
        try:
            fetched = self._exchanged(began + self._network.request_timeout_s)
        except (ConnectionLost, WireError, BrokerError) as cause:
            return self._failed(cause)
        if fetched is None:
            return self._refused()
        return self._answered(fetched, time.monotonic() - began)

    def _exchanged(self, deadline: float) -> AcceptedReply | None:
        self._fetcher.send(deadline)
        return self._fetcher.receive(deadline + LONG_POLL_MS / 1000)

    def _answered(self, fetched: AcceptedReply, took_s: float) -> float:
        if self._failing:
            self._backoff, self._failing = RetryPauses(self._network), False
            self._desk.failing(self.broker, None)
        self._refusals = 0
        moved = self._desk.replied(self.broker, fetched)
        self._news = moved > 0
        return pause_s(
            moved=moved,
            partitions=self._desk.partitions_of(self.broker),
            full=self._fetcher.session[0] == INVALID_SESSION_ID,
            record_bytes=sum(len(p.records) for p in fetched.partitions.values()),
            took_s=took_s,
        )

    def _refused(self) -> float:
        """The session begins anew. Once is routine, twice running is a broker in trouble."""
        self._refusals += 1
        if self._refusals < 2:
            return 0.0
        return self._failed(ConnectionLost(f"{self.broker} refuses every fetch: {self._fetcher!r}"))

    def _failed(self, cause: KfetchError) -> float:
        if not self._failing:
            log.warning("kfetch: watching %s: %s (trying again)", self.broker, cause.message)
        self._failing, self._news = True, False
        self._desk.failing(self.broker, cause)
        return self._backoff.next_pause_s()
