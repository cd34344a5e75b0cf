"""The driver's look-ups at the brokers: subscribed partitions, log ends, log starts, epoch ends.

A failed look-up is repeated by the policy of a new query, or of a checkpoint (``Retries``).
Leaders' answers leave out the partitions that no broker names any more (``losses.GONE_AFTER_S``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from kfetch import losses
from kfetch.errors import BrokerError, ConnectionLost, NoSuchPartition
from kfetch.model import NO_EPOCH, READ_UNCOMMITTED, ClusterView, Leader, TopicPartition
from kfetch.offsets import Position
from kfetch.options import EARLIEST, LATEST, SourceOptions
from kfetch.watch.broker_report import EVERY_BROKER, BrokerReport
from kfetch.wire.cluster import Cluster
from kfetch.wire.messages import EpochEnd
from kfetch.wire.retry import Retries, RetryPauses, Round

log = logging.getLogger(__name__)

Leaders = Mapping[TopicPartition, Leader | None]

# For a topic with at least this many partitions, a question about growth costs less than metadata.
_LARGE_TOPIC_PARTITIONS = 8
# Each question about growth takes a round trip, and a micro-batch waits for it.
_GROWTH_QUESTIONS_MAX = 8
_UNKNOWN_EPOCH_TRIES = 5
_STALE_TRIES = 3
_STALE_PAUSE_S = 0.1


class OffsetLookup:
    """Looks up the subscribed partitions of a cluster and their offsets."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(
            options.bootstrap,
            options.network,
            patient=False,
            retries=Retries.of_new_query(options),
        )

    def report_to(self, report: BrokerReport) -> None:
        """Note in a report whether any broker answers."""

        def note(cause: ConnectionLost | None) -> None:
            if cause is None:
                report.answered(EVERY_BROKER)
            else:
                report.lost(EVERY_BROKER, f"every broker ({self._bootstrap()})", cause.message)

        self._cluster.servers.on_answer = note

    def retry_by(self, retries: Retries) -> None:
        """Repeat failed look-ups by this policy from now on. The first one is of a new query."""
        self._cluster.retries = retries

    def cluster_view(self) -> ClusterView:
        """Returns fresh metadata of the brokers and the subscribed topics."""
        subscription = self._options.subscription
        if subscription.pattern is not None:
            return self._view_of_pattern()
        topics = subscription.topics or {tp.topic for tp in subscription.assigned}
        return self._cluster.view(topics)

    def may_have_changed(self, view: ClusterView) -> bool:
        """Returns False if no topic or partition was added or removed since ``view``.

        Asks one question for each topic, if the subscription names few topics and all are large.
        Otherwise returns True, because metadata costs less or tells more.
        """
        names, topics = self._options.subscription.topics, view.topics.values()
        large = all(len(topic.leaders) >= _LARGE_TOPIC_PARTITIONS for topic in topics)
        few = 0 < len(names) <= _GROWTH_QUESTIONS_MAX
        if not few or not large or set(names) != set(view.topics):
            return True
        deadline = time.monotonic() + self._options.network.request_timeout_s
        return any(self._cluster.may_have_changed(topic, deadline) for topic in topics)

    def view_including(self, partitions: Collection[TopicPartition]) -> ClusterView:
        """Returns fresh metadata. Asks again while one of these partitions is missing.

        A broker that has just started may not know a partition yet. A partition that stays away
        for all tries no longer exists.
        """
        view = self.completed(self.cluster_view(), partitions, {})
        for _ in range(_STALE_TRIES):
            if all(view.exists(tp) or not self.is_subscribed(tp) for tp in partitions):
                break
            time.sleep(_STALE_PAUSE_S)
            view = self.completed(self.cluster_view(), partitions, {})
        return view

    def other_topics(
        self, partitions: Collection[TopicPartition], topic_ids: Mapping[str, UUID]
    ) -> set[TopicPartition]:
        """Returns the partitions that brokers do not name any more in a topic of its known id.

        One broker's metadata may be old. So several are asked, until they agree, for
        ``losses.GONE_AFTER_S`` at most. After that, the answer of one that knows the id counts.
        """
        if not partitions:
            return set()
        names = {tp.topic for tp in partitions}
        pauses = RetryPauses.of(self._options.network)
        until = time.monotonic() + losses.GONE_AFTER_S
        while True:
            deadline = time.monotonic() + self._options.network.request_timeout_s
            views = [self.cluster_view(), *self._cluster.views(names, deadline)]
            known = [{tp for tp in partitions if view.has(tp, topic_ids)} for view in views]
            if all(one == known[0] for one in known) or time.monotonic() >= until:
                return set(partitions).difference(*known)
            time.sleep(pauses.next_pause_s())

    def completed(
        self,
        view: ClusterView,
        partitions: Iterable[TopicPartition],
        topic_ids: Mapping[str, UUID],
    ) -> ClusterView:
        """Returns a view with the topics of ``partitions`` that it lacks and other brokers have.

        ``topic_ids``: the known ids. A topic of another id counts as lacking.
        """
        missing = [
            tp for tp in partitions if not view.has(tp, topic_ids) and self.is_subscribed(tp)
        ]
        deadline = time.monotonic() + self._options.network.request_timeout_s
        return self._cluster.completed(view, missing, topic_ids, deadline)

    def is_subscribed(self, tp: TopicPartition) -> bool:
        """Returns whether the options name the partition, whether it exists or not."""
        subscription = self._options.subscription
        if subscription.assigned:
            return tp in subscription.assigned
        return subscription.includes(tp.topic)

    def subscribed_partitions(self, view: ClusterView) -> list[TopicPartition]:
        """Returns the existing partitions of the subscription, in order."""
        assigned = self._options.subscription.assigned
        if assigned:
            return [tp for tp in assigned if view.exists(tp)]
        return [
            TopicPartition(topic.name, partition)
            for _, topic in sorted(view.topics.items())
            for partition in topic.leaders
        ]

    def check_subscription(self, view: ClusterView) -> None:
        """Raises NoSuchPartition if the options name a topic or partition that does not exist."""
        subscription = self._options.subscription
        missing = [name for name in subscription.topics if name not in view.topics]
        missing += [str(tp) for tp in subscription.assigned if not view.exists(tp)]
        self._check_exist(missing)

    def _check_exist(self, missing: list[str]) -> None:
        if missing:
            raise NoSuchPartition(
                f"{', '.join(missing)}: no such topic or partition at "
                f"{self._bootstrap()}; create it, or correct the options subscribe or assign",
                missing=missing,
            )

    def unreadable(self, view: ClusterView) -> tuple[str, ...]:
        """Returns a sentence for each topic of a view that the user may describe and not read."""
        return tuple(self._cluster.unreadable(view.topics))

    def log_ends(
        self,
        partitions: Iterable[TopicPartition],
        leader_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, Position]:
        """Returns the end of each partition's log, with the leader epoch that vouches for it.

        The end is the high watermark. Under read_committed it is the last stable offset.
        ``leader_epochs``: the newest known epochs. Leaders of earlier epochs are not asked.
        """
        level = self._options.fetch.isolation_level
        latest = dict.fromkeys(partitions, LATEST)
        return self._positions(latest, isolation_level=level, leader_epochs=leader_epochs)

    def high_watermarks(
        self,
        partitions: Iterable[TopicPartition],
        leader_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, Position]:
        """Returns each partition's high watermark, under any isolation level."""
        return self._positions(dict.fromkeys(partitions, LATEST), leader_epochs=leader_epochs)

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Returns each partition's log start offset."""
        return self._positions(dict.fromkeys(partitions, EARLIEST))

    def offsets_at_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Position]:
        """Returns the position of each partition's first record at its time or later.

        Partitions without such a record below the log end are left out. The log end is that of
        ``log_ends``. The broker answers with a record's leader epoch. Raises NoSuchPartition for a
        partition that is gone: without an answer it would look like one without such a record.
        """
        level = self._options.fetch.isolation_level
        positions = self._positions(timestamps_ms, isolation_level=level)
        self._check_exist([str(tp) for tp in timestamps_ms if tp not in positions])
        return {tp: position for tp, position in positions.items() if position.offset >= 0}

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Position]:
        """Returns a consumer group's committed positions, without partitions that have none."""
        # Few queries need it, and a query's start can't spare the time of its import.
        from kfetch.wire import groups

        return groups.committed_offsets(self._cluster, group, partitions)

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], leader_epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd | None]:
        """Returns the end of each partition's given leader epoch; None if the broker can't tell.

        A partition that is gone has no answer, as in the other questions to leaders.
        ``leader_epochs``: the epochs of the known leaders. A leader that knows no such epoch is
        older than the position. So the driver looks for its successor, about 2.5 s at most. An
        answer that has no end after that is final.
        """
        answers: dict[TopicPartition, EpochEnd | None] = {}
        unknown, newest = dict(epochs), dict(leader_epochs)
        pauses = RetryPauses.of(self._options.network)
        while unknown:
            answers |= self._cluster.epoch_ends(unknown, leader_epochs=newest)
            unknown = {tp: epochs[tp] for tp in unknown if _is_unknown(answers.get(tp))}
            if not unknown or pauses.tries == _UNKNOWN_EPOCH_TRIES:
                break
            time.sleep(pauses.next_pause_s())
            newest |= self.newest_leader_epochs(unknown, newest)
        return answers

    def newest_leader_epochs(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Returns each partition's newest leader epoch of ``known`` and of several brokers."""
        newest = {tp: known.get(tp, NO_EPOCH) for tp in partitions}
        deadline = time.monotonic() + self._options.network.request_timeout_s
        for view in self._cluster.views({tp.topic for tp in newest}, deadline):
            for tp, epoch in newest.items():
                leader = view.leader(tp)
                newest[tp] = max(epoch, leader.epoch if leader else NO_EPOCH)
        return newest

    def await_leaders(
        self, known: Leaders, look: Callable[[ClusterView], Leaders]
    ) -> dict[TopicPartition, Leader]:
        """Returns the known leaders; if one is missing, those that ``look`` finds.

        ``look`` gets fresh metadata, until a running election is over. Raises BrokerError for a
        partition without a leader after the request timeout.
        """

        def attempt(_: Round) -> dict[TopicPartition, Leader]:
            return _complete(look(self.cluster_view()))

        if None not in known.values():
            return _complete(known)
        network = self._options.network
        deadline = time.monotonic() + network.request_timeout_s
        return Retries(network=network).ask("planning", attempt, deadline)

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _view_of_pattern(self) -> ClusterView:
        view = self._cluster.view(None)
        includes = self._options.subscription.includes
        topics = {
            name: topic
            for name, topic in view.topics.items()
            if not topic.internal and includes(name)
        }
        return ClusterView(brokers=view.brokers, topics=topics)

    def _positions(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_UNCOMMITTED,
        leader_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, Position]:
        if not timestamps:
            return {}
        offsets = self._cluster.offsets(
            timestamps, isolation_level=isolation_level, leader_epochs=leader_epochs
        )
        return {tp: Position(at.offset, at.leader_epoch) for tp, at in offsets.items()}

    def _bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._options.bootstrap)


def no_leader_error(tp: TopicPartition) -> BrokerError:
    """Returns the error for a partition that exists and has no leader."""
    return BrokerError(
        f"{tp} has no leader",
        action="start its brokers, or wait for an election",
        retriable=True,
        **tp._asdict(),
    )


def _complete(leaders: Leaders) -> dict[TopicPartition, Leader]:
    """Returns the leaders. Raises BrokerError for a partition that has none."""
    complete = {tp: leader for tp, leader in leaders.items() if leader is not None}
    for tp in leaders:
        if tp not in complete:
            raise no_leader_error(tp)
    return complete


def _is_unknown(end: EpochEnd | None) -> bool:
    """Returns whether the leader knows no such epoch. None is a broker that is too old to ask."""
    return end is not None and end.end_offset < 0
