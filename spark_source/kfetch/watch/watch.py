"""The watch: one poller per broker over one shared state, and the lock between their threads.

Spark's thread brings metadata and log ends, and takes the changed partitions. The pollers' threads
take position changes and bring replies. No thread waits for a broker while it holds the lock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from kfetch import losses
from kfetch.errors import (
    BrokerError,
    ConnectionLost,
    KfetchError,
    UnsupportedVersion,
    WireError,
)
from kfetch.fetch.fetcher import AcceptedReply
from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import Totals
from kfetch.model import Broker, ClusterView, Leader, TopicPartition
from kfetch.offsets import Position
from kfetch.options import SourceOptions
from kfetch.watch.backlog import Backlog
from kfetch.watch.broker_report import BrokerReport
from kfetch.watch.poller import Poller
from kfetch.watch.state import UNKNOWN, PositionChanges, WatchState
from kfetch.wire.retry import clearer

log = logging.getLogger(__name__)

_SILENT_S = 5.0
"""A broker answers a long poll within half a second. A pause of this length is worth a report."""
CHECKED_EPOCHS_VERSION = 12
"""Fetch sessions ignored leader epochs at first (KAFKA-9338). This version of Fetch came with Kafka
2.7, after the correction."""
CLOSE_S = 1.0
"""How long closing may take: a long poll in flight, and the request that closes the session."""


class Watch:
    """Keeps the log ends of the subscribed partitions current, with one session per broker.

    It has many attributes, because one lock guards them: what pollers report, the driver takes.
    ``WatchState``, ``Poller``, ``BrokerReport`` and ``Backlog`` hold the rest.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.state = WatchState(
            isolation_level=options.fetch.isolation_level, user=options.network.security.user
        )
        """Spark's thread reads ``partitions``, ``topic_ids``, leaders and offsets without the lock.
        Only this thread adds and removes partitions, and each answer is one attribute that a poller
        replaces as a whole. Everything else needs the lock."""
        self._condition = threading.Condition()
        """The lock, with a notification after every reply and every failure."""
        self._pollers: dict[Broker, Poller] = {}
        self._failures: dict[Broker, tuple[float, KfetchError]] = {}
        """When requests to a broker began to fail (monotonic seconds), and the clearest cause."""
        self._broker_failed = False
        """Whether requests to a broker failed since the last metadata."""
        self._metadata_at = 0.0
        """When the last metadata came: monotonic seconds."""
        self._refusals_reported = False
        self._warned_of_epochs = False
        self._reply_counts: Counter[Broker] = Counter()
        self._closed = False
        self._closing: list[Poller] = []
        self.report = BrokerReport(options.reports.broker_report)
        """Lists brokers that do not answer, for monitoring."""
        self.backlog = Backlog()
        self._totals = Totals()

    def update_metadata(
        self,
        view: ClusterView,
        partitions: Iterable[TopicPartition],
        hidden: Collection[TopicPartition] = (),
    ) -> list[TopicPartition]:
        """Apply fresh metadata. Returns the partitions whose log ends ``watch_from`` needs."""
        with self._condition:
            self._broker_failed, self._metadata_at = False, time.monotonic()
            without_log_end = self.state.update_metadata(view, partitions, hidden)
            self._start_missing_pollers()
            leaderless = sorted(self.state.leaderless)
        self._report_leaders(leaderless)
        return without_log_end

    def _report_leaders(self, leaderless: Sequence[TopicPartition]) -> None:
        if not leaderless:
            self.report.answered(self)
            return
        others = f" and of {len(leaderless) - 1} more partitions" if leaderless[1:] else ""
        self.report.lost(self, f"the leader of {leaderless[0]}{others}", "metadata names none")

    def watch_from(
        self,
        log_ends: Mapping[TopicPartition, Position],
        leaders: Mapping[TopicPartition, Leader | None],
        log_starts: Mapping[TopicPartition, Position],
    ) -> None:
        """Watch partitions from these log ends on."""
        with self._condition:
            for tp, end in log_ends.items():
                self.state.watch_from(tp, leaders[tp], end, log_starts.get(tp, UNKNOWN))
            self._start_missing_pollers()

    def take_changed(self) -> set[TopicPartition]:
        """Returns the partitions that changed since the last call.

        Raises an error that no retry removes, or that has lasted too long.
        """
        self._report_silence()
        self._report_refusals()
        with self._condition:
            if self.state.permanent_error is not None:
                raise self.state.permanent_error
            self._raise_lasting_failure()
            changed, self.state.changed = self.state.changed, set()
            return changed

    def _report_silence(self) -> None:
        """Report brokers that do not answer a request. The deadline comes much later."""
        with self._condition:
            pollers = list(self._pollers.values())
        for poller in pollers:
            asked_at = poller.asked_at
            if asked_at is not None and time.monotonic() - asked_at > _SILENT_S:
                cause = f"no answer for {_SILENT_S:.0f} s"
                self.report.lost(poller.broker, str(poller.broker), cause)

    def _report_refusals(self) -> None:
        """Warn of partitions that their leader refuses for some seconds, once until all return."""
        with self._condition:
            refusals = self._lasting_refusals(_SILENT_S)
        if not refusals:
            self._refusals_reported = False
            self.report.answered("refusals")
        elif not self._refusals_reported:
            self._refusals_reported = True
            first = min(refusals)
            cause = refusals[first].message
            others = f" and {len(refusals) - 1} more partitions" if len(refusals) > 1 else ""
            log.warning("kfetch: %s (this concerns %s%s; kfetch retries)", cause, first, others)
            self.report.lost("refusals", f"{first}{others}", cause)

    def _lasting_refusals(self, least_s: float) -> dict[TopicPartition, BrokerError]:
        """Returns the errors of partitions that are refused for longer than ``least_s`` seconds."""
        refusals = self.state.refusals.items()
        return {tp: refusal.error for tp, refusal in refusals if refusal.lasted_s > least_s}

    def poll_resting(self, timeout_s: float) -> None:
        """Wake the resting sessions, and wait for their replies at most ``timeout_s`` seconds.

        The other sessions need no poll: they wait at their broker, or polled a moment ago.
        """
        with self._condition:
            counts = {b: self._reply_counts[b] + 1 for b, p in self._pollers.items() if p.resting}
            for broker in counts:
                self._pollers[broker].wake()
            self._condition.wait_for(
                lambda: all(self._reply_counts[b] >= count for b, count in counts.items()),
                timeout_s,
            )

    def wait_for_change(self, timeout_s: float) -> bool:
        """Wait until a partition changes, at most ``timeout_s`` seconds; return whether it did."""
        if timeout_s <= 0.0:
            return False
        with self._condition:
            for poller in self._pollers.values():
                poller.wake()
            return self._condition.wait_for(lambda: bool(self.state.changed), timeout_s)

    @property
    def needs_metadata(self) -> bool:
        """Whether a partition has no known leader, or a broker has failed since the metadata."""
        with self._condition:
            return self._broker_failed or bool(self.state.leaderless)

    @property
    def out_of_range(self) -> list[TopicPartition]:
        """Partitions whose log does not reach the known log end."""
        with self._condition:
            return list(self.state.out_of_range)

    def stats(self) -> FetchStats:
        """Returns the cost of the sessions so far."""
        return self._totals.stats()

    def close(self) -> None:
        """Close every session. A broker that does not answer in time keeps its own.

        A signal may interrupt this method and call it again. The second call waits for the same
        sessions.
        """
        with self._condition:
            self._closed = True
            self._closing += self._pollers.values()
            self._pollers.clear()
        for poller in self._closing:
            poller.stop()
        deadline = time.monotonic() + CLOSE_S
        for poller in self._closing:
            poller.join(max(0.0, deadline - time.monotonic()))

    # PartitionRegistry: the pollers call these methods.

    def take_position_changes(self, broker: Broker) -> PositionChanges | None:
        """See PartitionRegistry. None ends the poller of a broker that leads no partition."""
        with self._condition:
            changes = self.state.take_position_changes(broker)
            if self.state.partition_count(broker):
                return changes
            self._pollers.pop(broker, None)
            self._failures.pop(broker, None)
        self.report.answered(broker)
        return None

    def accept_reply(self, broker: Broker, accepted: AcceptedReply) -> int:
        """See PartitionRegistry."""
        self.report.answered(broker)
        moved = self._apply(broker, accepted)
        self.report.refresh(self._backlog_now)
        return moved

    def _backlog_now(self) -> Mapping[str, object] | None:
        with self._condition:
            return self.backlog.document(self.state.known_log_ends(), time.time())

    def _apply(self, broker: Broker, accepted: AcceptedReply) -> int:
        with self._condition:
            endpoints = accepted.reply.endpoints
            partitions, now = accepted.partitions, time.monotonic()
            checks_epochs = accepted.reply.version >= CHECKED_EPOCHS_VERSION
            self._warn_of_epochs(checks_epochs)
            moved = self.state.accept_reply(
                *(broker, partitions, endpoints, now),
                checks_epochs=checks_epochs,
                omits_unchanged=not (accepted.full or accepted.only_throttled),
            )
            self._start_missing_pollers()
            self._failures.pop(broker, None)
            self._reply_counts[broker] += 1
            self._condition.notify_all()
            return moved

    def _warn_of_epochs(self, checks_epochs: bool) -> None:
        if not (checks_epochs or self._warned_of_epochs):
            self._warned_of_epochs = True
            log.warning("kfetch: %s", losses.UNCHECKED_EPOCHS)

    def report_failure(self, broker: Broker, cause: KfetchError) -> bool:
        """See PartitionRegistry. An unreachable leader may have a successor: metadata tells."""
        if isinstance(cause, ConnectionLost):
            self.report.lost(broker, str(broker), cause.message)
        with self._condition:
            self._broker_failed = True
            since, first_cause = self._failures.get(broker, (time.monotonic(), None))
            clearest = clearer(first_cause, cause)
            self._failures[broker] = since, clearest
            self._condition.notify_all()
            return clearest is cause

    def _start_missing_pollers(self) -> None:
        """Start a poller for every broker that leads partitions and has none."""
        for broker in self.state.brokers():
            if broker not in self._pollers and not self._closed:
                self._pollers[broker] = Poller(broker, self, self._options, self._totals)
                self._start(self._pollers[broker])

    def _start(self, poller: Poller) -> None:
        poller.start()

    def _raise_lasting_failure(self) -> None:
        """Raise for a leader that fails or refuses for as long as look-ups are retried.

        Only the driver asks for metadata. After a long micro-batch, the partitions of a dead broker
        may have new leaders. So metadata must name the broker after that time.
        """
        options = self._options
        patience_s = options.network.request_timeout_s * (1 + options.lookups.retries)
        for broker, (since, cause) in self._failures.items():
            is_late = self._metadata_at - since > patience_s
            if _is_permanent(cause) or (is_late and self.state.partition_count(broker)):
                raise cause.prefixed(f"watching {broker}")
        for error in self._lasting_refusals(patience_s).values():
            raise error


def _is_permanent(cause: KfetchError) -> bool:
    """Returns whether a retry can't help. Unreadable bytes may be readable the next time."""
    if isinstance(cause, BrokerError):
        return not cause.where.get("retriable")
    return isinstance(cause, UnsupportedVersion) or not isinstance(
        cause, (ConnectionLost, WireError)
    )
