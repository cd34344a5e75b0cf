"""The watch: one poller per broker over one shared state, and the lock between the threads.

Spark's thread brings metadata and positions, and takes what changed; the pollers' threads take
orders and bring replies. Nothing waits for a broker while it holds the lock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from uuid import UUID

from kfetch.errors import (
    BrokerError,
    ConnectionLost,
    KfetchError,
    UnsupportedVersion,
    WireError,
)
from kfetch.fetch.fetcher import AcceptedReply
from kfetch.fetch.stats import FetchStats
from kfetch.model import Broker, ClusterView, Leader, TopicPartition
from kfetch.offsets import Position
from kfetch.options import SourceOptions
from kfetch.watch.poller import Poller
from kfetch.watch.state import Orders, WatchState

log = logging.getLogger(__name__)

CLOSE_S = 1.0
"""How long closing may take: a long poll in flight, and the request that closes the session."""


class Watch:
    """What is known of the subscribed partitions, kept current by one session per broker."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._state = WatchState(isolation_level=options.fetch.isolation_level)
        self._news = threading.Condition()
        self._pollers: dict[Broker, Poller] = {}
        self._orphans: dict[int, tuple[int, int]] = {}
        self._failing: dict[Broker, tuple[float, KfetchError]] = {}
        self._shaken = False
        self._replies: Counter[Broker] = Counter()
        self._closed = False
        self._closing: list[Poller] = []
        self._past = FetchStats()

    def adopt(self, sessions: Mapping[int, tuple[int, int]]) -> None:
        """Close these sessions of an earlier run with the first request to each broker."""
        self._orphans = dict(sessions)

    def follow(
        self, view: ClusterView, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Take fresh metadata; returns the partitions that need a position (``place``)."""
        with self._news:
            self._shaken = False
            unplaced = self._state.follow(view, partitions)
            self._staff()
            return unplaced

    def place(
        self,
        ends: Mapping[TopicPartition, Position],
        leaders: Mapping[TopicPartition, Leader | None],
        log_starts: Mapping[TopicPartition, Position],
    ) -> None:
        """Watch partitions from these log ends on."""
        with self._news:
            for tp, end in ends.items():
                start = log_starts[tp].offset if tp in log_starts else -1
                self._state.place(tp, leaders[tp], end, start)
            self._staff()

    def take(self) -> set[TopicPartition]:
        """The partitions that changed since the last call. Raises what can't heal."""
        with self._news:
            if self._state.failure is not None:
                raise self._state.failure
            self._check_failing()
            changed, self._state.changed = self._state.changed, set()
            return changed

    def refresh(self, seconds: float) -> None:
        """Ask the brokers whose sessions rest for what is new; for so long at most.

        The other sessions wait at their broker, or have asked a moment ago.
        """
        with self._news:
            due = {b: self._replies[b] + 1 for b, p in self._pollers.items() if p.resting}
            for broker in due:
                self._pollers[broker].call()
            self._news.wait_for(lambda: all(self._replies[b] >= n for b, n in due.items()), seconds)

    def wait(self, seconds: float) -> bool:
        """Wait until something changes, for so long at most; whether it did."""
        if seconds <= 0.0:
            return False
        with self._news:
            for poller in self._pollers.values():
                poller.call()
            return self._news.wait_for(lambda: bool(self._state.changed), seconds)

    @property
    def unsettled(self) -> bool:
        """Whether metadata should be asked again: leaders are unknown, or brokers unreachable."""
        with self._news:
            return self._shaken or bool(self._state.astray)

    @property
    def out_of_range(self) -> list[TopicPartition]:
        """Partitions that need a new position."""
        with self._news:
            return list(self._state.out_of_range)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Every watched partition."""
        with self._news:
            return list(self._state.partitions)

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        """Ids of the watched topics."""
        return self._state.topic_ids

    # What follows is read without the lock: Spark's thread alone adds and removes partitions,
    # and each answer is one attribute that a poller replaces as a whole.

    def exists(self, tp: TopicPartition) -> bool:
        """Whether a partition is there, as far as metadata was asked."""
        return tp in self._state

    def leader(self, tp: TopicPartition) -> Leader | None:
        """Who leads a partition, None while nobody is known to."""
        return self._state.leader(tp)

    def end(self, tp: TopicPartition) -> Position | None:
        """The log end; None while a new leader has not vouched for it."""
        return self._state.end(tp)

    def log_start(self, tp: TopicPartition) -> int:
        """The log start offset, -1 while it is not known."""
        return self._state.log_start(tp)

    def sessions(self) -> dict[int, tuple[int, int]]:
        """(id, epoch) of each broker's session, an orphan's while it is not replaced yet."""
        with self._news:
            current = {broker.node_id: p.session for broker, p in self._pollers.items()}
            known = {**self._orphans, **current}
        return {node: pair for node, pair in known.items() if pair[0]}

    def stats(self) -> FetchStats:
        """What the sessions cost so far."""
        with self._news:
            return sum((poller.stats() for poller in self._pollers.values()), self._past)

    def close(self) -> None:
        """Close every session; a broker that does not answer in time keeps its own.

        A signal may interrupt this by a second call: that one waits for the same sessions.
        """
        with self._news:
            self._closed = True
            self._closing += self._pollers.values()
            self._pollers.clear()
        for poller in self._closing:
            poller.stop()
        until = time.monotonic() + CLOSE_S
        for poller in self._closing:
            poller.join(max(0.0, until - time.monotonic()))

    # What pollers ask and tell.

    def orders(self, broker: Broker) -> Orders | None:
        """See Desk. A broker without partitions loses its poller, and so its session."""
        with self._news:
            if self._state.asked_of(broker):
                return self._state.orders(broker)
            self._state.orders(broker)
            poller = self._pollers.pop(broker, None)
            if poller is not None:
                self._past += poller.stats()
            self._failing.pop(broker, None)
            return None

    def replied(self, broker: Broker, fetched: AcceptedReply) -> int:
        """See Desk."""
        with self._news:
            moved = self._state.replied(broker, fetched.partitions, fetched.reply.endpoints)
            self._staff()
            self._replies[broker] += 1
            self._news.notify_all()
            return moved

    def partitions_of(self, broker: Broker) -> int:
        """See Desk."""
        with self._news:
            return self._state.asked_of(broker)

    def failing(self, broker: Broker, cause: KfetchError | None) -> None:
        """See Desk. A leader that can't be reached may be one no longer: ask for metadata."""
        with self._news:
            if cause is None:
                self._failing.pop(broker, None)
                return
            self._shaken = True
            since, first = self._failing.get(broker, (time.monotonic(), cause))
            self._failing[broker] = since, first
            self._news.notify_all()

    def _staff(self) -> None:
        """A poller for every broker that has partitions."""
        for broker in self._state.brokers():
            if broker not in self._pollers and not self._closed:
                orphan, _ = self._orphans.pop(broker.node_id, (0, 0))
                self._pollers[broker] = Poller(broker, self, self._options, orphan)
                self._begin(self._pollers[broker])

    def _begin(self, poller: Poller) -> None:
        poller.start()

    def _check_failing(self) -> None:
        """Raise for a leader that could not be asked for as long as look-ups are tried."""
        options = self._options
        patience_s = options.network.request_timeout_s * (1 + options.lookup_retries)
        for broker, (since, cause) in self._failing.items():
            if _hopeless(cause) or time.monotonic() - since > patience_s:
                raise type(cause)(f"watching {broker}: {cause.message}", **cause.context)


def _hopeless(cause: KfetchError) -> bool:
    """Whether trying again mends nothing. Bytes that could not be read may be fine next time."""
    if isinstance(cause, BrokerError):
        return not cause.context.get("retriable")
    return isinstance(cause, UnsupportedVersion) or not isinstance(
        cause, (ConnectionLost, WireError)
    )
