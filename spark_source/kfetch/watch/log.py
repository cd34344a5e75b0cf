"""What the driver asks the brokers: partitions of the subscription, log ends, log starts, epochs.

Look-ups are repeated as ``fetchOffset.numRetries`` says, each bounded by the request timeout.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from kfetch.errors import BrokerError, ConnectionLost, KfetchError, NoSuchPartition
from kfetch.model import READ_UNCOMMITTED, ClusterView, TopicPartition
from kfetch.offsets import Position
from kfetch.options import EARLIEST, LATEST, SourceOptions
from kfetch.wire.cluster import Cluster
from kfetch.wire.messages import EpochEnd
from kfetch.wire.retry import retrying

log = logging.getLogger(__name__)

T = TypeVar("T")

# From so many partitions a topic on, asking what is new is cheaper than asking for all of it.
_MANY_PARTITIONS = 8
_FEW_TOPICS = 8  # each takes a round trip, for which a micro-batch waits
_STALE_TRIES = 3
_STALE_PAUSE_S = 0.1


class Log:
    """The subscribed partitions of a cluster, as the driver sees them."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.bootstrap, options.network)

    def view(self) -> ClusterView:
        """Brokers and subscribed topics, freshly asked."""
        subscription = self._options.subscription
        if subscription.pattern is not None:
            return self._patterned()
        topics = subscription.topics or {tp.topic for tp in subscription.assigned}
        return self._ask(lambda deadline: self._cluster.view(topics, deadline))

    def may_have_changed(self, view: ClusterView) -> bool:
        """Whether there may be news since ``view``: a partition or topic more, or less.

        Asked topic by topic, of a few that are named and have many partitions; else it is True,
        because metadata costs less, or tells what no other answer does.
        """
        named, topics = self._options.subscription.topics, view.topics.values()
        large = all(len(topic.leaders) >= _MANY_PARTITIONS for topic in topics)
        if not 0 < len(named) <= _FEW_TOPICS or set(named) != set(view.topics) or not large:
            return True
        until = time.monotonic() + self._options.network.request_timeout_s
        return any(self._cluster.may_have_changed(topic, until) for topic in topics)

    def settled_view(self, known: Collection[TopicPartition]) -> ClusterView:
        """The same, asked again while a partition that was there is not: a broker that was just
        started may not have heard of it yet, and what is gone stays away."""
        view = self.view()
        for _ in range(_STALE_TRIES):
            if all(view.exists(tp) for tp in known):
                break
            time.sleep(_STALE_PAUSE_S)
            view = self.view()
        return view

    def led_view(self, partitions: Collection[TopicPartition]) -> ClusterView:
        """The same, once each of these partitions has a leader: an election takes a moment."""

        def attempt() -> ClusterView:
            view = self.view()
            for tp in partitions:
                if view.exists(tp) and view.leader(tp) is None:
                    raise no_leader(tp)
            return view

        network = self._options.network
        until = time.monotonic() + network.request_timeout_s
        return retrying("planning", attempt, network, until)

    def partitions(self, view: ClusterView) -> list[TopicPartition]:
        """The subscribed partitions that exist, in order."""
        assigned = self._options.subscription.assigned
        if assigned:
            return [tp for tp in assigned if view.exists(tp)]
        return [
            TopicPartition(topic.name, partition)
            for _, topic in sorted(view.topics.items())
            for partition in topic.leaders
        ]

    def check_subscription(self, view: ClusterView) -> None:
        """Raise NoSuchPartition if a topic or partition that is named does not exist."""
        subscription = self._options.subscription
        missing = [name for name in subscription.topics if name not in view.topics]
        missing += [str(tp) for tp in subscription.assigned if not view.exists(tp)]
        if missing:
            raise NoSuchPartition(
                f"{', '.join(missing)}: no such topic or partition at "
                f"{self._bootstrap()}; create it, or mend the options subscribe or assign",
                missing=missing,
            )

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Where reading ends, and the leader epoch that vouches for it: each partition's high
        watermark, or under read_committed its last stable offset."""
        level = self._options.fetch.isolation_level
        return self._positions(dict.fromkeys(partitions, LATEST), isolation_level=level)

    def high_watermarks(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Position]:
        """Each partition's high watermark, whatever the isolation level."""
        return self._positions(dict.fromkeys(partitions, LATEST))

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Each partition's log start offset."""
        return self._positions(dict.fromkeys(partitions, EARLIEST))

    def at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, Position]:
        """Each partition's first record of a time or later; without one it is left out."""
        found = self._positions(dict.fromkeys(partitions, timestamp_ms))
        return {tp: position for tp, position in found.items() if position.offset >= 0}

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd | None]:
        """Where the records of each partition's epoch end; None where the broker can't tell."""
        if not epochs:
            return {}
        return self._ask(lambda deadline: self._cluster.epoch_ends(epochs, deadline))

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _patterned(self) -> ClusterView:
        every = self._ask(lambda deadline: self._cluster.view(None, deadline))
        wants = self._options.subscription.wants
        topics = {
            name: topic
            for name, topic in every.topics.items()
            if not topic.internal and wants(name)
        }
        return ClusterView(brokers=every.brokers, topics=topics)

    def _positions(
        self, wanted: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, Position]:
        if not wanted:
            return {}
        found = self._ask(
            lambda deadline: self._cluster.offsets(
                wanted, deadline, isolation_level=isolation_level
            )
        )
        return {tp: Position(at.offset, at.leader_epoch) for tp, at in found.items()}

    def _ask(self, question: Callable[[float], T]) -> T:
        """Ask, and again as often as the options allow."""
        left, each_s = self._options.lookup_retries, self._options.network.request_timeout_s
        while True:
            deadline = time.monotonic() + each_s
            self._cluster.give_up_at = deadline + left * (self._options.lookup_retry_s + each_s)
            try:
                return question(deadline)
            except (ConnectionLost, BrokerError) as cause:
                if left == 0 or not _worth_repeating(cause):
                    raise
                left -= 1
                log.warning("kfetch: %s (asking again, %d times at most)", cause.message, left + 1)
                time.sleep(self._options.lookup_retry_s)

    def _bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._options.bootstrap)


def no_leader(tp: TopicPartition) -> BrokerError:
    """A partition that exists has no leader now."""
    return BrokerError(
        f"{tp} has no leader: start its brokers, or wait for an election",
        retriable=True,
        topic=tp.topic,
        partition=tp.partition,
    )


def _worth_repeating(cause: KfetchError) -> bool:
    return not isinstance(cause, BrokerError) or bool(cause.context.get("retriable"))
