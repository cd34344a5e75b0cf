"""What a reset or a replay would do: from the checkpoint, and what Kafka says now."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from uuid import UUID

from kfetch.errors import KfetchError
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.watch.lookups import OffsetLookup
from kfetch_jobs.checkpoints.backup import Range
from kfetch_jobs.checkpoints.files import Checkpoint
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.looks import job as looks
from kfetch_jobs.looks.job import JobReport, SourceReport
from kfetch_jobs.looks.source import Partition, with_short_timeouts
from kfetch_jobs.offsets.moves import Choice, Move, Verb, chosen, move
from kfetch_jobs.offsets.table import affected
from kfetch_jobs.offsets.target import Given, Stand, Target, Timed

__all__ = ["Plan", "planned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a reset or a replay would do."""

    verb: Verb
    job: str
    target: Target
    checkpoint: Checkpoint
    moves: tuple[Move, ...]
    """Of the partitions that were chosen."""
    dropped: tuple[TopicPartition, ...]
    """They don't exist any more, and the checkpoint forgets them."""
    sources: tuple[Offsets | None, ...]
    """Where each of the checkpoint's sources goes on."""
    ranges: tuple[Range, ...]
    """What the job will read behind the move, as far as the logs go now."""
    tables: tuple[str, ...]
    """Those to which the job appends: what comes again would be there twice."""

    @property
    def again(self) -> int:
        """Offsets that come again."""
        return sum(each.again for each in self.moves)

    @property
    def skipped(self) -> int:
        """Offsets that are never read."""
        return sum(each.skipped for each in self.moves)


def planned(job: Job, verb: Verb, target: Target, choices: Sequence[Choice]) -> Plan:
    """Plan it. Raises JobsError for what can't be, ConfigError for what was asked wrongly."""
    stands = looks.report(job, time.time())
    checkpoint = _movable(job, stands)
    places = looks.match_sources(job, checkpoint)
    there = {each.tp for source in stands.sources for each in source.kafka.partitions}
    meant = chosen(choices, there)
    whole = meant == there
    lasts = [_last(checkpoint, places[each.view]) for each in stands.sources]
    parts = [
        _part(job, verb, target, meant, source, last)
        for source, last in zip(stands.sources, lasts, strict=True)
    ]
    ends: list[Offsets | None] = [*checkpoint.planned.sources] if checkpoint.planned else []
    dropped: list[TopicPartition] = []
    for source, part in zip(stands.sources, parts, strict=True):
        place = places[source.view]
        if place is None:
            raise JobsError(
                f"job {job.name}: the checkpoint has no offsets of {source.view}, which has come "
                "to the job since: offsets can be moved once it has run with it"
            )
        gone = _gone(checkpoint, place, source) if whole and verb is Verb.RESET else []
        ends[place] = _end(checkpoint, place, source, part, gone)
        dropped += gone
    return Plan(
        verb=verb,
        job=job.name,
        target=target,
        checkpoint=checkpoint,
        moves=tuple(moved for part in parts for moved in part.moves),
        dropped=tuple(sorted(dropped)),
        sources=tuple(ends),
        ranges=tuple(each for part in parts for each in part.ranges),
        tables=tuple(str(place) for place in affected(job)),
    )


def _last(checkpoint: Checkpoint, place: int | None) -> Mapping[TopicPartition, Position]:
    """Where the last planned micro-batch ends: the table may have all before that."""
    end = None if place is None else checkpoint.end(place)
    return end.positions if end else {}


def _movable(job: Job, stands: JobReport) -> Checkpoint:
    checkpoint = stands.checkpoint
    if checkpoint is None or checkpoint.planned is None:
        raise JobsError(
            f"job {job.name} has not read anything yet: where it begins is its source option "
            "startingOffsets"
        )
    state = checkpoint.path / "state"
    if state.is_dir() and any(state.iterdir()):
        raise JobsError(
            f"job {job.name} keeps state (an aggregate, a join, deduplication), in which rows that "
            f"come again would count twice: let it begin anew, with another checkpoint and table, "
            "at the startingOffsets of your choice"
        )
    if stands.leaderless:
        raise JobsError(
            f"{stands.leaderless[0]} has no leader, so nobody can tell its offsets: start its "
            "brokers, or wait for an election"
        )
    return checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One source: its moves, and the positions that they make."""

    moves: tuple[Move, ...]
    positions: Mapping[TopicPartition, Position]
    ranges: tuple[Range, ...]


def _part(
    job: Job,
    verb: Verb,
    target: Target,
    meant: Collection[TopicPartition],
    source: SourceReport,
    last: Mapping[TopicPartition, Position],
) -> _Part:
    _check_fits(job, verb, target, meant, source)
    here = source.kafka.partitions
    try:
        marks = _Marks.of(source, target, [each.tp for each in here])
    except KfetchError as cause:
        told = job.redacted(cause.message)
        raise JobsError(f"job {job.name}, source {source.view}: {told}") from cause
    stands = {each.tp: marks.stand(each, source) for each in here}
    # A replay leaves new partitions to the next run, but a batch without its commit may have begun.
    moving = {each.tp for each in here if verb is Verb.RESET or not each.new} & {*meant}
    moves = tuple(move(verb, target, stand) for tp, stand in stands.items() if tp in moving)
    after = {each.tp: each.after for each in moves}
    ranges = (_behind(stand, after.get(tp), last.get(tp)) for tp, stand in stands.items())
    return _Part(
        moves=moves,
        positions={tp: Position(at, marks.ends[tp].leader_epoch) for tp, at in after.items()},
        ranges=tuple(each for each in ranges if each.begin < each.end),
    )


def _behind(stand: Stand, after: int | None, last: Position | None) -> Range:
    """What will be read of a partition, and what has been: logs may tell less than was written."""
    return Range(
        topic=stand.tp.topic,
        partition=stand.tp.partition,
        begin=stand.before if after is None else after,
        end=max(stand.log_end, stand.before, last.offset if last else 0),
    )


def _check_fits(
    job: Job,
    verb: Verb,
    target: Target,
    meant: Collection[TopicPartition],
    source: SourceReport,
) -> None:
    if verb is Verb.REPLAY and source.kafka.losses:
        raise JobsError(
            f"job {job.name}: what is gone can't come again: {source.kafka.losses[0]}; kfetch "
            "offsets reset moves a job past a loss"
        )
    for topic in source.recreated:
        if any(each.tp.topic == topic and each.tp not in meant for each in source.kafka.partitions):
            raise JobsError(
                f"job {job.name}: topic {topic} was deleted and created again, so none of its "
                "offsets in the checkpoint is of use: reset all of its partitions"
            )
    for topic, known in target.topic_ids.items() if isinstance(target, Given) else ():
        if source.kafka.topic_ids.get(topic, known) != known:
            raise JobsError(
                f"the offsets of {target} are of another topic {topic}, of id {known.hex}: it was "
                "deleted and created again since"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    """What a source's brokers say of its partitions."""

    starts: Mapping[TopicPartition, Position]
    ends: Mapping[TopicPartition, Position]
    times: Mapping[TopicPartition, Position]

    @classmethod
    def of(
        cls, source: SourceReport, target: Target, partitions: Sequence[TopicPartition]
    ) -> _Marks:
        with closing(OffsetLookup(with_short_timeouts(source.options))) as log:
            return cls(
                starts=log.log_starts(partitions),
                ends=log.log_ends(partitions),
                times=log.offsets_at_time(partitions, target.ms)
                if isinstance(target, Timed)
                else {},
            )

    def stand(self, partition: Partition, source: SourceReport) -> Stand:
        tp = partition.tp
        before = source.known.get(tp, Position(partition.position or 0))
        if tp.topic in source.recreated:
            before = Position(0)  # the old topic's offset says nothing of this one
        end = self.ends[tp].offset
        if not partition.lost:  # an open transaction or a new leader may hide what was read
            end = max(end, before.offset)
        return Stand(
            tp=tp,
            before=before.offset,
            log_start=self.starts[tp].offset,
            log_end=end,
            timed=self.times[tp].offset if tp in self.times else None,
        )


def _gone(checkpoint: Checkpoint, place: int, source: SourceReport) -> list[TopicPartition]:
    start = checkpoint.start(place)
    here = {each.tp for each in source.kafka.partitions}
    return [tp for tp in start.positions if tp not in here] if start else []


def _end(
    checkpoint: Checkpoint,
    place: int,
    source: SourceReport,
    part: _Part,
    gone: Collection[TopicPartition],
) -> Offsets:
    """The checkpoint's positions with those that move; others keep their leader epochs."""
    start, last = checkpoint.start(place), checkpoint.end(place)
    kept = {tp: at for tp, at in start.positions.items() if tp not in gone} if start else {}
    moved = {
        tp: at
        for tp, at in part.positions.items()
        if tp not in kept or kept[tp].offset != at.offset or tp.topic in source.recreated
    }
    names = {tp.topic for tp in kept | moved}
    ids = {**(start.topic_ids if start else {}), **_ids(source, moved)}
    return Offsets(
        positions=kept | moved,
        topic_ids={name: id_ for name, id_ in ids.items() if name in names},
        sessions=last.sessions if last is not None else {},
    )


def _ids(source: SourceReport, moved: Collection[TopicPartition]) -> dict[str, UUID]:
    ids = source.kafka.topic_ids
    return {tp.topic: ids[tp.topic] for tp in moved if tp.topic in ids}
