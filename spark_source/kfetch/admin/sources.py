"""Reports on one source in Kafka: partitions, log starts and ends, positions, losses.

``query_kafka`` uses the look-ups and the loss policy of the source itself, so it reports what a run
would find. ``log_offsets`` returns offsets by partition. Neither opens a fetch session, and neither
disturbs a running query. Offsets are record offsets, and an end is exclusive.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID

from kfetch.errors import DataLoss, NoSuchPartition
from kfetch.model import ClusterView, TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.options import SourceOptions

if TYPE_CHECKING:
    from kfetch.watch.lookups import OffsetLookup
    from kfetch.watch.state import WatchState

LOOKUP_TIMEOUT_S = 10.0
"""The limit for one look-up, which is not retried: a user waits at the terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Offsets of one partition. They are None if it has no leader."""

    tp: TopicPartition
    log_start: int | None = None
    log_end: int | None = None
    """The high watermark, or the last stable offset of a read_committed source."""
    position: int | None = None
    """The next offset that the job reads. If that offset is lost, the first one that remains."""
    leader: int | None = None
    """The broker's id."""
    new: bool = False
    """Whether the checkpoint lacks the partition."""
    lost: bool = False
    """Whether the log has lost the checkpoint's position."""

    @property
    def behind(self) -> int | None:
        """Offsets from the position to the log's end."""
        if self.position is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaReport:
    """Kafka's view of one source. Without a checkpoint, positions come from ``startingOffsets``."""

    partitions: tuple[Partition, ...]
    topic_ids: Mapping[str, UUID]
    loss_errors: tuple[DataLoss, ...] = ()
    """The errors of ``losses``, with topic, partition and offsets as attributes."""
    missing: str = ""
    """A sentence, if topics or partitions of the job don't exist. A run with a checkpoint waits for
    them."""
    unreadable: tuple[str, ...] = ()
    """A sentence for each topic that the user may describe and not read."""

    @property
    def losses(self) -> tuple[str, ...]:
        """A sentence for each reason why the checkpoint's offsets don't fit the log."""
        return tuple(loss.message for loss in self.loss_errors)

    @property
    def behind(self) -> int:
        """Offsets behind the log ends, over all partitions whose lag is known."""
        return sum(partition.behind or 0 for partition in self.partitions)

    @property
    def leaderless(self) -> tuple[TopicPartition, ...]:
        """Partitions that have no leader, so no client can read them now."""
        return tuple(partition.tp for partition in self.partitions if partition.leader is None)


def query_kafka(
    options: SourceOptions, start: Offsets | None = None, planned: Offsets | None = None
) -> KafkaReport:
    """Ask the cluster about a source whose next run starts at the checkpoint's offsets ``start``.

    Without ``start``, the source begins at ``startingOffsets``. ``planned`` is the end of a
    micro-batch that has to run again. The report has the losses of both. A look-up takes at most
    ten seconds.

    Raises ConnectionLost or BrokerError if the brokers don't answer. Raises NoSuchPartition if
    ``start`` is None and a topic does not exist.
    """
    with closing(_lookup(options)) as log:
        if start is None:
            return _from_beginning(options, log)
        return _from_checkpoint(log, start, planned)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsets:
    """Offsets of partitions, as their leaders report them, with the leader epochs."""

    starts: Mapping[TopicPartition, Position]
    """Log start offsets."""
    ends: Mapping[TopicPartition, Position]
    """High watermarks, or last stable offsets of a read_committed source."""
    times: Mapping[TopicPartition, Position]
    """The first records at or after the requested time; partitions without one are absent."""
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """The ids of the subscribed topics, from brokers that know them."""


def log_offsets(
    options: SourceOptions,
    partitions: Collection[TopicPartition],
    timestamp_ms: int | None = None,
) -> LogOffsets:
    """Ask for the log starts and log ends of partitions, their offsets at a time, and topic ids.

    ``timestamp_ms`` is in milliseconds since 1970. Without it, ``times`` is empty. Raises
    ConnectionLost or BrokerError.
    """
    with closing(_lookup(options)) as log:
        return LogOffsets(
            starts=log.log_starts(partitions),
            ends=log.log_ends(partitions),
            times={}
            if timestamp_ms is None
            else log.offsets_at_times(dict.fromkeys(partitions, timestamp_ms)),
            topic_ids=log.cluster_view().topic_ids,
        )


def _lookup(options: SourceOptions) -> OffsetLookup:
    """Returns the source's look-ups without retries and with a short timeout."""
    from kfetch.watch.lookups import OffsetLookup

    network = options.network
    network = replace(
        network,
        request_timeout_s=min(network.request_timeout_s, LOOKUP_TIMEOUT_S),
        connect_timeout_s=min(network.connect_timeout_s, LOOKUP_TIMEOUT_S),
    )
    lookups = replace(options.lookups, retries=0)
    return OffsetLookup(replace(options, lookups=lookups, network=network))


def _from_beginning(options: SourceOptions, log: OffsetLookup) -> KafkaReport:
    from kfetch.watch.initial_positions import bound_positions

    view = log.cluster_view()
    log.check_subscription(view)
    positions = bound_positions(options.starting, log, view)
    starts, ends = log.log_starts(positions), log.log_ends(positions)
    return KafkaReport(
        partitions=_partitions(view, positions, positions, starts, ends),
        topic_ids=view.topic_ids,
        unreadable=log.unreadable(view),
    )


def _from_checkpoint(log: OffsetLookup, start: Offsets, planned: Offsets | None) -> KafkaReport:
    from kfetch.watch.position_check import PositionCheck

    view = log.view_including(start.positions)
    missing = _missing(log, view)
    subscribed = log.subscribed_partitions(view)
    start = start.with_returned(subscribed, view.topic_ids)
    led = [tp for tp in subscribed if view.leader(tp) is not None]
    starts, ends = log.log_starts(led), log.log_ends(led)
    losses: list[DataLoss] = []
    state = _watch_state(view, subscribed, starts, ends)
    check = PositionCheck(log, state, fail=False, on_loss=losses.append)
    if planned is not None:
        ends = check.valid_log_ends(ends, check.valid_offsets(planned))
    valid = check.valid_offsets(start)
    ends = check.valid_log_ends(ends, valid)
    new = frozenset(tp for tp in led if tp not in start.positions)
    begin = {tp: min(p, ends.get(tp, p), key=_by_offset) for tp, p in valid.positions.items()}
    lost = {tp for tp, position in begin.items() if position.offset != start.positions[tp].offset}
    begin |= check.new_partition_starts(new)
    partitions = _partitions(view, subscribed, begin, starts, ends)
    # The planned end and the start often tell of one loss. The first sentence is enough.
    by_partition: dict[object, DataLoss] = {}
    for loss in losses:
        by_partition.setdefault(_subject(loss), loss)
    return KafkaReport(
        partitions=tuple(replace(p, new=p.tp in new, lost=p.tp in lost) for p in partitions),
        topic_ids=view.topic_ids,
        loss_errors=tuple(by_partition.values()),
        missing=missing,
        unreadable=log.unreadable(view),
    )


def _subject(loss: DataLoss) -> object:
    """Returns the kind and the partition of a loss, or its sentence if it names no partition."""
    partition = loss.where.get("partition")
    topic = loss.where.get("topic")
    return loss.message if partition is None else (loss.condition, topic, partition)


def _missing(log: OffsetLookup, view: ClusterView) -> str:
    try:
        log.check_subscription(view)
    except NoSuchPartition as missing:
        return missing.message
    return ""


def _watch_state(
    view: ClusterView,
    subscribed: Collection[TopicPartition],
    starts: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, Position],
) -> WatchState:
    """Returns the state of a watch that these look-ups have just told."""
    from kfetch.watch.state import UNKNOWN, WatchState

    state = WatchState()
    for tp in state.update_metadata(view, subscribed):
        state.watch_from(tp, view.leader(tp), ends.get(tp, UNKNOWN), starts.get(tp, UNKNOWN))
    return state


def _partitions(
    view: ClusterView,
    subscribed: Collection[TopicPartition],
    positions: Mapping[TopicPartition, Position],
    starts: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, Position],
) -> tuple[Partition, ...]:
    return tuple(
        Partition(
            tp=tp,
            log_start=_offset(starts, tp),
            log_end=_offset(ends, tp),
            position=_offset(positions, tp),
            leader=leader.broker.node_id if (leader := view.leader(tp)) else None,
        )
        for tp in sorted(subscribed)
    )


def _by_offset(position: Position) -> int:
    return position.offset


def _offset(positions: Mapping[TopicPartition, Position], tp: TopicPartition) -> int | None:
    return positions[tp].offset if tp in positions else None


def check_schemas(options: SourceOptions) -> None:
    """Raises OptionError for mistakes in schemas of options. Asks no registry. Needs pyspark.

    Columns whose schema is in a registry are not checked, and then no others either.
    """
    from kfetch.formats.reader_schemas import needs_schema

    if not any(needs_schema(typed) for typed in options.typed_columns):
        columns(options)


def columns(options: SourceOptions) -> dict[str, str]:
    """Returns the Spark SQL type of each of a source's columns, by name. Needs pyspark."""
    from kfetch.spark.schema import schema

    return {field.name: field.dataType.simpleString() for field in schema(options)}
