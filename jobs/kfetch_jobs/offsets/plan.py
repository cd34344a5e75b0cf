"""Plans a reset or a replay, from the checkpoint and from Kafka's present offsets."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from uuid import UUID

from kfetch.admin.checkpoint import Checkpoint
from kfetch.admin.query import Offsets, Position
from kfetch.admin.sources import LogOffsets, Partition, log_offsets
from kfetch.errors import KfetchError
from kfetch.model import TopicPartition
from kfetch.storage.open import StoredPath
from kfetch_jobs.checkpoints.backup import OffsetRange
from kfetch_jobs.checkpoints.checkpoint import check_movable
from kfetch_jobs.checkpoints.topic_history import TopicIds
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.offsets import job_report
from kfetch_jobs.offsets.job_report import JobReport, SourceReport
from kfetch_jobs.offsets.moves import (
    Move,
    TopicChoice,
    Verb,
    chosen_partitions,
    partition_move,
)
from kfetch_jobs.offsets.shared_tables import topics_read
from kfetch_jobs.offsets.target import MoveTarget, PartitionOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """The plan of a reset or a replay."""

    verb: Verb
    job: str
    target: MoveTarget
    checkpoint: Checkpoint
    moves: tuple[Move, ...]
    """The moves of the chosen partitions."""
    dropped: tuple[TopicPartition, ...]
    """Partitions that don't exist any more. The checkpoint lists their positions separately."""
    sources: tuple[Offsets | None, ...]
    """The offsets at which each of the checkpoint's sources goes on."""
    ranges: tuple[OffsetRange, ...]
    """The offsets that the job reads after the move, up to the present log ends. A replay deletes
    all of their rows."""
    tables: tuple[str, ...]
    """The tables to which the job appends. A record that it reads again is there twice, unless its
    earlier row is deleted."""
    margin_percent: int
    """How far a replay stays away from the start of a log, as a share of the log's offsets."""
    topics_read: TopicIds
    """For a replay that deletes rows: the topics that the job has ever read, with their ids."""

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics at which the job goes on, in hexadecimal digits."""
        return {
            topic: id_.hex
            for source in self.sources
            if source
            for topic, id_ in source.topic_ids.items()
        }

    @property
    def end(self) -> int:
        """The sum of the offsets at which the job goes on, as in the job's progress."""
        return sum(
            at.offset for source in self.sources if source for at in source.positions.values()
        )

    @property
    def reread(self) -> int:
        """The number of offsets that the job reads again."""
        return sum(move.reread for move in self.moves)

    @property
    def skipped(self) -> int:
        """The number of offsets that the job never reads."""
        return sum(move.skipped for move in self.moves)


def plan_move(
    job: Job,
    verb: Verb,
    target: MoveTarget,
    choices: Sequence[TopicChoice],
    margin_percent: int,
) -> MovePlan:
    """Returns the plan of a move. ``margin_percent`` is the margin of a replay at the log starts.

    Raises JobsError if the move is impossible, ConfigError for a wrong choice of partitions.
    """
    check_movable(job)
    report = job_report.report(job, time.time(), quick=False)
    checkpoint = _movable(job, report)
    job_report.match_sources(job, checkpoint)  # raises an error if nobody can tell which is which
    existing = {one.tp for source in report.sources for one in source.kafka.partitions}
    chosen = chosen_partitions(choices, existing)
    whole = chosen == existing
    parts = [
        _source_moves(job, verb, target, chosen, source, checkpoint, margin_percent)
        for source in report.sources
    ]
    ends: list[Offsets | None] = [*checkpoint.planned.sources] if checkpoint.planned else []
    dropped: list[TopicPartition] = []
    for source, part in zip(report.sources, parts, strict=True):
        if source.number is None:
            raise JobsError(
                f"job {job.name}: the checkpoint has no offsets of {source.view}, which is "
                "new in the job: run the job once before you move its offsets"
            )
        gone = _gone(source) if whole and verb is Verb.RESET else []
        ends[source.number] = _end(source, part, gone)
        dropped += gone
    deletes = verb is Verb.REPLAY and bool(job.appended_tables)
    plan = MovePlan(
        verb=verb,
        job=job.name,
        target=target,
        checkpoint=checkpoint,
        moves=tuple(moved for part in parts for moved in part.moves),
        dropped=tuple(sorted(dropped)),
        sources=tuple(ends),
        ranges=tuple(one for part in parts for one in part.ranges),
        tables=tuple(map(str, job.appended_tables)),
        margin_percent=margin_percent,
        topics_read=topics_read(job, checkpoint.path) if deletes else {},
    )
    check_no_earlier_topic(plan, {move.tp.topic for move in plan.moves if move.reread})
    return plan


def check_no_earlier_topic(plan: MovePlan, topics: AbstractSet[str]) -> None:
    """Raises JobsError if the job has read one of these topics under another id before.

    A row has an offset and no topic id. So a replay would delete rows of the earlier topic too.
    """
    present = plan.topic_ids
    for topic in sorted(topics & present.keys()):
        if earlier := sorted(plan.topics_read.get(topic, frozenset()) - {present[topic]}):
            raise JobsError(
                f"job {plan.job}: topic {topic} was deleted and created again, and the job has "
                f"read the earlier one too (id {earlier[-1]}): a replay would delete its "
                "rows, and can't write them again: delete the wrong rows yourself and use kfetch "
                "offsets reset, which does not change the table"
            )


def _planned_ends(checkpoint: Checkpoint, number: int | None) -> Mapping[TopicPartition, Position]:
    """The end of the last planned micro-batch: the table may have all records before it."""
    end = None if number is None else checkpoint.end(number)
    return end.positions if end else {}


def _movable(job: Job, report: JobReport) -> Checkpoint:
    checkpoint = report.checkpoint
    if checkpoint is None or checkpoint.planned is None:
        raise JobsError(
            f"job {job.name} has not read anything yet: set where it begins with its source "
            "option startingOffsets"
        )
    if _has_state(checkpoint.path / "state"):
        raise JobsError(
            f"job {job.name} keeps state (an aggregate, a join, deduplication), in which records "
            "that it reads again would count twice: give it another checkpoint and table, and set "
            "startingOffsets"
        )
    if report.leaderless:
        raise JobsError(
            f"{report.leaderless[0]} has no leader, so no broker can tell its offsets: start its "
            "brokers, or wait for an election"
        )
    return checkpoint


def _has_state(state: StoredPath) -> bool:
    try:
        return any(True for _ in state.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _SourceMoves:
    """The moves of one source, and the resulting positions."""

    moves: tuple[Move, ...]
    positions: Mapping[TopicPartition, Position]
    ranges: tuple[OffsetRange, ...]


def _source_moves(
    job: Job,
    verb: Verb,
    target: MoveTarget,
    chosen: Collection[TopicPartition],
    source: SourceReport,
    checkpoint: Checkpoint,
    margin_percent: int,
) -> _SourceMoves:
    _check_fits(job, verb, target, chosen, source)
    here, planned_ends = source.kafka.partitions, _planned_ends(checkpoint, source.number)
    try:
        logs = log_offsets(source.options, [one.tp for one in here], target.timestamp_ms)
    except KfetchError as cause:
        reason = job.redacted(cause.message)
        raise JobsError(f"job {job.name}, source {source.view}: {reason}") from cause
    offsets = {one.tp: _offsets_of(one, logs, source) for one in here}
    # A replay does not move new partitions: an unfinished micro-batch may have begun to read them.
    moving = {one.tp for one in here if verb is Verb.RESET or not one.new} & {*chosen}
    moves = tuple(
        partition_move(verb, target, at, margin_percent)
        for tp, at in offsets.items()
        if tp in moving
    )
    after = {move.tp: move.after for move in moves}
    ranges = (_range_after(at, after.get(tp), planned_ends.get(tp)) for tp, at in offsets.items())
    return _SourceMoves(
        moves=moves,
        positions={tp: Position(at, logs.ends[tp].leader_epoch) for tp, at in after.items()},
        ranges=tuple(one for one in ranges if one.begin < one.end),
    )


def _range_after(
    at: PartitionOffsets, after: int | None, planned_end: Position | None
) -> OffsetRange:
    """The offsets that the job reads after the move.

    The end is at least that of the last planned micro-batch. Kafka may show an earlier log end.
    """
    return OffsetRange(
        topic=at.tp.topic,
        partition=at.tp.partition,
        begin=at.before if after is None else after,
        end=max(at.log_end, at.before, planned_end.offset if planned_end else 0),
    )


def _check_fits(
    job: Job,
    verb: Verb,
    target: MoveTarget,
    chosen: Collection[TopicPartition],
    source: SourceReport,
) -> None:
    if verb is Verb.REPLAY and source.kafka.losses:
        raise JobsError(
            f"job {job.name}: a replay can't read lost records: {source.kafka.losses[0]}; kfetch "
            "offsets reset moves a job past a loss"
        )
    for topic in source.recreated:
        if any(one.tp.topic == topic and one.tp not in chosen for one in source.kafka.partitions):
            raise JobsError(
                f"job {job.name}: topic {topic} was deleted and created again, so its offsets "
                "in the checkpoint are invalid: reset all of its partitions"
            )
    for topic, known in target.topic_ids.items():
        if source.kafka.topic_ids.get(topic, known) != known:
            raise JobsError(
                f"the offsets of {target} belong to an earlier topic {topic} (id {known.hex}), "
                "which was deleted and created again"
            )


def _offsets_of(partition: Partition, logs: LogOffsets, source: SourceReport) -> PartitionOffsets:
    tp = partition.tp
    before = _start(source).positions.get(tp, Position(partition.position or 0))
    if tp.topic in source.recreated:
        before = Position(0)  # the old topic's offset does not apply to the new one
    end = logs.ends[tp].offset
    if not partition.lost:
        # An open transaction or a new leader may hide records that the job has read.
        end = max(end, before.offset)
    return PartitionOffsets(
        tp=tp,
        before=before.offset,
        log_start=logs.starts[tp].offset,
        log_end=end,
        at_time=logs.times[tp].offset if tp in logs.times else None,
    )


def _start(source: SourceReport) -> Offsets:
    """The checkpoint's offsets; none if the next run starts without it."""
    return source.start or Offsets(positions={})


def _gone(source: SourceReport) -> list[TopicPartition]:
    here = {one.tp for one in source.kafka.partitions}
    return [tp for tp in _start(source).positions if tp not in here]


def _end(source: SourceReport, part: _SourceMoves, gone: Collection[TopicPartition]) -> Offsets:
    """The checkpoint's positions after the move. Unmoved positions keep their leader epochs."""
    start = _start(source)
    retained = {tp: at for tp, at in start.positions.items() if tp not in gone}
    moved = {
        tp: at
        for tp, at in part.positions.items()
        if tp not in retained or retained[tp].offset != at.offset or tp.topic in source.recreated
    }
    names = {tp.topic for tp in retained | moved}
    ids = {**start.topic_ids, **_ids(source, moved)}
    ids = {name: id_ for name, id_ in ids.items() if name in names}
    last = {tp: start.positions[tp] for tp in gone}
    left = start.left_after(last, retained | moved, ids, int(time.time()))
    return Offsets(positions=retained | moved, topic_ids=ids, left=left)


def _ids(source: SourceReport, moved: Collection[TopicPartition]) -> dict[str, UUID]:
    ids = source.kafka.topic_ids
    return {tp.topic: ids[tp.topic] for tp in moved if tp.topic in ids}
