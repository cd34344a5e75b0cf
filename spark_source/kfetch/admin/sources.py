"""Where a source stands in Kafka: partitions, log starts, log ends, next positions and losses.

``state`` uses the look-ups and the loss policy of the source itself, so it says what a run would
find. ``log_offsets`` returns offsets by partition. Neither opens a fetch session, so a running
query does not notice. Offsets are record offsets, and an end is exclusive.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID

from kfetch.errors import DataLoss, NoSuchPartition
from kfetch.model import ClusterView, Leader, TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.options import SourceOptions

if TYPE_CHECKING:
    from kfetch.watch.lookups import OffsetLookup

__all__ = ["LogOffsets", "PartitionState", "SourceState", "log_offsets", "state"]

WAIT_S = 10.0
"""Somebody waits at the terminal: one look-up takes no longer, and is not repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Where one partition stands. An offset is None while the partition has no leader."""

    tp: TopicPartition
    log_start: int | None = None
    log_end: int | None = None
    """The high watermark, or the last stable offset of a read_committed source."""
    position: int | None = None
    """The next offset that the source reads; if that is lost, the first that is left."""
    leader: int | None = None
    """The broker's id."""
    new: bool = False
    """The checkpoint has no position of it."""
    lost: bool = False
    """The checkpoint's position is gone."""

    @property
    def behind(self) -> int | None:
        """Offsets from the position to the log's end."""
        if self.position is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """One source. Without a checkpoint, positions are those of ``startingOffsets``."""

    partitions: tuple[PartitionState, ...]
    topic_ids: Mapping[str, UUID]
    losses: tuple[str, ...] = ()
    """Why the checkpoint's offsets don't fit the log: one sentence for each loss."""
    missing: str = ""
    """A sentence about topics or partitions that the options name and that don't exist. A run that
    goes on from a checkpoint waits for them."""

    @property
    def behind(self) -> int:
        """Offsets of all partitions together, without those that have no leader."""
        return sum(partition.behind or 0 for partition in self.partitions)

    @property
    def leaderless(self) -> tuple[TopicPartition, ...]:
        """Partitions that can't be read now."""
        return tuple(state.tp for state in self.partitions if state.leader is None)


def state(
    options: SourceOptions, start: Offsets | None = None, planned: Offsets | None = None
) -> SourceState:
    """Ask the cluster where a source stands that goes on from the checkpoint's offsets ``start``.

    Without ``start``, the source begins at ``startingOffsets``. ``planned`` is the end of a
    micro-batch that has to run again: it must fit too. A look-up takes ten seconds at most. Raises
    ConnectionLost or BrokerError if the brokers don't answer, NoSuchPartition if a topic of a
    source without ``start`` does not exist.
    """
    with closing(_lookup(options)) as log:
        return _from_beginning(options, log) if start is None else _going_on(log, start, planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsets:
    """What the leaders of partitions say of their logs, with the leader epochs."""

    starts: Mapping[TopicPartition, Position]
    """Log start offsets."""
    ends: Mapping[TopicPartition, Position]
    """High watermarks, or last stable offsets of a read_committed source."""
    times: Mapping[TopicPartition, Position]
    """First records at or after the time that was asked for; without such a record, no entry."""


def log_offsets(
    options: SourceOptions,
    partitions: Collection[TopicPartition],
    timestamp_ms: int | None = None,
) -> LogOffsets:
    """Ask for the log starts and log ends of partitions, and for their offsets at a time.

    ``timestamp_ms`` is in milliseconds since 1970. Without it, ``times`` is empty. Raises
    ConnectionLost or BrokerError.
    """
    with closing(_lookup(options)) as log:
        return LogOffsets(
            starts=log.log_starts(partitions),
            ends=log.log_ends(partitions),
            times={} if timestamp_ms is None else log.offsets_at_time(partitions, timestamp_ms),
        )


def _lookup(options: SourceOptions) -> OffsetLookup:
    """The source's look-ups, for somebody who waits at the terminal."""
    from kfetch.watch.lookups import OffsetLookup

    network = options.network
    network = replace(
        network,
        request_timeout_s=min(network.request_timeout_s, WAIT_S),
        connect_timeout_s=min(network.connect_timeout_s, WAIT_S),
    )
    return OffsetLookup(replace(options, lookup_retries=0, network=network))


def _from_beginning(options: SourceOptions, log: OffsetLookup) -> SourceState:
    from kfetch.watch.initial_positions import initial_positions

    view = log.cluster_view()
    log.check_subscription(view)
    positions = initial_positions(options.starting, log, view)
    starts, ends = log.log_starts(positions), log.log_ends(positions)
    return SourceState(
        partitions=_partitions(view, positions, positions, starts, ends),
        topic_ids=_ids(view),
    )


def _going_on(log: OffsetLookup, start: Offsets, planned: Offsets | None) -> SourceState:
    from kfetch.watch.position_check import PositionCheck

    view = log.view_including(start.positions)
    missing = _missing(log, view)
    here = log.subscribed_partitions(view)
    led = [tp for tp in here if view.leader(tp) is not None]
    starts, ends = log.log_starts(led), log.log_ends(led)
    losses: list[DataLoss] = []
    known = _KnownNow(view=view, here=frozenset(here), starts=starts)
    check = PositionCheck(log, known, fail=False, on_loss=losses.append)
    if planned is not None:
        ends = check.valid_log_ends(ends, check.valid_offsets(planned))
    sound = check.valid_offsets(start)
    ends = check.valid_log_ends(ends, sound)
    new = [tp for tp in led if tp not in start.positions]
    fresh = frozenset(new)
    begin = {tp: min(p, ends.get(tp, p), key=_by_offset) for tp, p in sound.positions.items()}
    lost = {tp for tp, position in begin.items() if position.offset != start.positions[tp].offset}
    begin |= check.new_partition_starts(new)
    states = _partitions(view, here, begin, starts, ends)
    return SourceState(
        partitions=tuple(replace(s, new=s.tp in fresh, lost=s.tp in lost) for s in states),
        topic_ids=_ids(view),
        losses=tuple(dict.fromkeys(loss.message for loss in losses)),
        missing=missing,
    )


def _missing(log: OffsetLookup, view: ClusterView) -> str:
    try:
        log.check_subscription(view)
    except NoSuchPartition as missing:
        return missing.message
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownNow:
    """KnownPartitions of one look-up."""

    view: ClusterView
    here: frozenset[TopicPartition]
    starts: Mapping[TopicPartition, Position]
    topic_ids: Mapping[str, UUID] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "topic_ids", _ids(self.view))

    def exists(self, tp: TopicPartition) -> bool:
        return tp in self.here

    def leader(self, tp: TopicPartition) -> Leader | None:
        return self.view.leader(tp)

    def log_start(self, tp: TopicPartition) -> int:
        return self.starts[tp].offset if tp in self.starts else -1


def _partitions(
    view: ClusterView,
    here: Collection[TopicPartition],
    positions: Mapping[TopicPartition, Position],
    starts: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, Position],
) -> tuple[PartitionState, ...]:
    return tuple(
        PartitionState(
            tp=tp,
            log_start=_offset(starts, tp),
            log_end=_offset(ends, tp),
            position=_offset(positions, tp),
            leader=leader.broker.node_id if (leader := view.leader(tp)) else None,
        )
        for tp in sorted(here)
    )


def _by_offset(position: Position) -> int:
    return position.offset


def _offset(positions: Mapping[TopicPartition, Position], tp: TopicPartition) -> int | None:
    return positions[tp].offset if tp in positions else None


def _ids(view: ClusterView) -> dict[str, UUID]:
    return {name: topic.topic_id for name, topic in view.topics.items() if topic.topic_id.int}


def columns(options: SourceOptions) -> dict[str, str]:
    """Return the type of each column that a source has, in Spark SQL's words. Needs pyspark."""
    from kfetch.source import schema

    return {field.name: field.dataType.simpleString() for field in schema(options)}
