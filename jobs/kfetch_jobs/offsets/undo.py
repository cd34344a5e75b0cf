"""Undoes a move: the tables first, then the checkpoint.

If the job has not run since the move, kfetch restores its checkpoint file by file. Else the job
goes on at its offsets before the move, and kfetch deletes the rows that the job will write again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from kfetch.admin.values import Offsets, Position
from kfetch.model import TopicPartition
from kfetch_jobs.checkpoints import backup as backups
from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.checkpoints.backup import Backup, OffsetRange, Stage
from kfetch_jobs.checkpoints.checkpoint import Checkpoint
from kfetch_jobs.checkpoints.topic_history import offsets_topic_ids
from kfetch_jobs.config import Job, Project
from kfetch_jobs.errors import JobsError
from kfetch_jobs.offsets import checkpoint_log
from kfetch_jobs.offsets.execution import Report, silent
from kfetch_jobs.offsets.moves import MARGIN_PERCENT, Verb
from kfetch_jobs.offsets.retention import check_readable
from kfetch_jobs.offsets.shared_tables import check_no_writes_since, jobs_on_same_tables, topics_of
from kfetch_jobs.offsets.table_rows import AppendedRows, appended_tables, open_rows
from kfetch_jobs.offsets.topic_ids import check_same_topics
from kfetch_jobs.progress.progress_file import append_undone


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The plan for undoing a move."""

    job: str
    backup: Backup
    before: Checkpoint
    """The checkpoint before the move."""
    now: Checkpoint
    exact: bool
    """The job has not run since: ``undo`` restores its checkpoint file by file."""
    sources: tuple[Offsets | None, ...]
    """The offsets at which each source goes on afterwards."""
    new_partitions: tuple[TopicPartition, ...]
    """Partitions that are new since the move. Their offsets stay."""

    def positions(self) -> Iterator[tuple[TopicPartition, int | None, int]]:
        """Yield each partition with its present offset and its offset afterwards."""
        for number, offsets in enumerate(self.sources):
            here = self.now.start(number)
            for tp, position in sorted(offsets.positions.items()) if offsets else ():
                at = here.positions.get(tp) if here else None
                yield tp, at.offset if at else None, position.offset

    @property
    def rewrites(self) -> bool:
        """Whether the undo changes tables too."""
        return bool(self.backup.tables or self.since)

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics of ``sources``, in hexadecimal digits."""
        return {topic: id_ for topic, ids in offsets_topic_ids(self.sources).items() for id_ in ids}

    @property
    def again(self) -> list[OffsetRange]:
        """Offsets whose rows the tables lose, and which the job must read again from Kafka."""
        if self.exact or not self.rewrites:
            return []
        return [
            one
            for n, start in enumerate(self.sources)
            for one in _ranges(_positions(start), self._ends(n))
        ]

    @property
    def unended(self) -> list[OffsetRange]:
        """The micro-batch without a commit before the move: a restored table may have its rows."""
        if self.exact or not self.before.pending:
            return []
        count = range(self.before.sources)
        return [
            one
            for n in count
            for one in _ranges(_positions(self.before.start(n)), _positions(self.before.end(n)))
        ]

    @property
    def since(self) -> list[OffsetRange]:
        """Offsets that the job may have written since to tables that the undo does not restore."""
        if self.exact or self.backup.verb != Verb.REPLAY:
            return []
        moved = {TopicPartition(one.topic, one.partition): one for one in self.backup.ranges}
        return [one for n in range(self.before.sources) for one in self._since(n, moved)]

    def _since(
        self, source: int, moved: Mapping[TopicPartition, OffsetRange]
    ) -> Iterator[OffsetRange]:
        begins = _positions(self.before.start(source))
        ends = self._ends(source)
        begins |= {tp: moved[tp].begin for tp in ends.keys() & moved.keys()}
        return _ranges(begins, ends)

    def _ends(self, source: int) -> dict[TopicPartition, int]:
        """The offsets up to which the job may have written, before the move or since."""
        ends, now = _positions(self.before.end(source)), _positions(self.now.end(source))
        return {tp: max(ends.get(tp, 0), now.get(tp, 0)) for tp in ends | now}


def _ranges(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[OffsetRange]:
    """The ranges from begins to ends. A partition without a begin is new: from offset 0."""
    for tp, end in sorted(ends.items()):
        if (begin := begins.get(tp, 0)) < end:
            yield OffsetRange(topic=tp.topic, partition=tp.partition, begin=begin, end=end)


def _positions(offsets: Offsets | None) -> dict[TopicPartition, int]:
    return {tp: at.offset for tp, at in offsets.positions.items()} if offsets else {}


def plan_undo(job: Job) -> UndoPlan:
    """Returns the plan for undoing the last move. Raises JobsError if there is nothing to undo."""
    now = checkpoints.job_checkpoint(job)
    backup = backups.last_move(now.path)
    if backup is None:
        raise JobsError(
            f"job {job.name}: there is no move of its offsets to undo in {now.path}.backups"
        )
    before = backup.checkpoint
    if before.query != now.query:
        raise JobsError(
            f"{now.path} is the checkpoint of another query ({now.query}) than {backup.path} "
            f"({before.query}): move that backup away"
        )
    exact = now.planned is None or now.planned.number <= backup.batch
    sources = [before.start(n) for n in range(before.sources)]
    if not exact:
        check_same_topics(job, before, now)
    # A replay's undo deletes the rows of new partitions, and the job reads them again. After a
    # reset they stay in the table.
    keeps = backup.verb == Verb.RESET and not exact
    grown = [_grown(then, now.start(n)) if keeps else {} for n, then in enumerate(sources)]
    return UndoPlan(
        job=job.name,
        backup=backup,
        before=before,
        now=now,
        exact=exact,
        sources=tuple(_with(then, now.start(n), grown[n]) for n, then in enumerate(sources)),
        new_partitions=tuple(sorted(tp for positions in grown for tp in positions)),
    )


def _grown(then: Offsets | None, now: Offsets | None) -> dict[TopicPartition, Position]:
    """The positions of new partitions, of topics that are still the same."""
    if then is None or now is None:
        return {}
    ids = then.topic_ids
    return {
        tp: at
        for tp, at in now.positions.items()
        if tp not in then.positions
        and ids.get(tp.topic, now.topic_ids.get(tp.topic)) == now.topic_ids.get(tp.topic)
    }


def _with(
    then: Offsets | None, now: Offsets | None, grown: Mapping[TopicPartition, Position]
) -> Offsets | None:
    if then is None or now is None or not grown:
        return then
    ids = {tp.topic: now.topic_ids[tp.topic] for tp in grown if tp.topic in now.topic_ids}
    return replace(then, positions={**then.positions, **grown}, topic_ids={**then.topic_ids, **ids})


def undo(
    project: Project,
    job: Job,
    plan: UndoPlan,
    *,
    margin_percent: int = MARGIN_PERCENT,
    report: Report = silent,
) -> None:
    """Carry out the plan, within ``jobs_at_rest``. ``report`` gets the steps.

    Raises JobsError, and changes nothing, if tables would lose rows that Kafka may not keep until a
    run reads them again. ``margin_percent`` is the margin at the log starts.
    """
    others = jobs_on_same_tables(project, job)
    check_no_writes_since(job, plan.backup, others)
    _check_ended(job, plan)
    if plan.rewrites and (plan.backup.tables or appended_tables(job)):
        read = _topics(plan.before) | _topics(plan.now)
        report("starting Spark, for the tables")
        with open_rows(job, len(read) > 1 or bool(others)) as rows:
            if plan.again and plan.backup.stage is not Stage.UNDOING:
                report("asking Kafka for the log starts")
                check_readable(
                    job,
                    plan.again,
                    plan.topic_ids,
                    margin_percent,
                    way_out="let the job go on as it is",
                    must_return=lambda gaps: _has_position(plan, gaps) or _has_rows(rows, gaps),
                )
            _restore_tables(rows, plan, report)
    report("restoring the checkpoint")
    backup = plan.backup.record_stage(Stage.UNDOING)
    if plan.exact:
        checkpoint_log.remove_batch(plan.now.path, backup.batch)
    else:
        checkpoint_log.add_batch(plan.now, plan.sources, time.time())
    backup.record_stage(Stage.UNDONE)
    if plan.since:
        with suppress(OSError):  # only the page reads it
            append_undone(job.directory, backup.batch)


def _has_position(plan: UndoPlan, ranges: Sequence[OffsetRange]) -> bool:
    """Whether the job would go on at an offset of one of these partitions."""
    known = {tp for start in plan.sources for tp in _positions(start)}
    return any(TopicPartition(one.topic, one.partition) in known for one in ranges)


def _has_rows(rows: AppendedRows, ranges: Sequence[OffsetRange]) -> bool:
    return any(rows.count(ranges).values())


def _check_ended(job: Job, plan: UndoPlan) -> None:
    """Raise JobsError if the job could write an unfinished batch a second time."""
    unchanged_table = plan.backup.verb == Verb.RESET and not plan.exact and appended_tables(job)
    begun = plan.backup.stage is Stage.UNDOING  # the undo's own micro-batch may lack its commit
    for checkpoint, way_out in (
        (plan.before, "use kfetch offsets replay, which deletes them, to go back instead"),
        (plan.now, "let kfetch run end it first"),
    ):
        if unchanged_table and not begun and checkpoint.pending and checkpoint.planned:
            raise JobsError(
                f"job {job.name}: micro-batch {checkpoint.planned.number} was planned, and its end "
                f"is not noted: the table may have its rows already, and they would come again: "
                f"{way_out}"
            )


def _topics(checkpoint: Checkpoint) -> set[str]:
    count = range(checkpoint.sources)
    return topics_of(at for n in count for at in (checkpoint.start(n), checkpoint.end(n)))


def _restore_tables(rows: AppendedRows, plan: UndoPlan, report: Report) -> None:
    """Restore the tables that lost rows; delete the rows since the move from the others."""
    restored = rows.names & {table.name for table in plan.backup.tables}
    others = rows.names - restored
    rows.check([*(restored if plan.unended else ()), *(others if plan.since else ())])
    versions = [rows.version(table) for table in plan.backup.tables]
    plan.backup.record_stage(Stage.UNDOING)
    for number, table in enumerate(plan.backup.tables):
        report(f"restoring {table.name} to version {table.version}")
        try:
            rows.restore(table, _way_out(plan.backup, number))
        except Exception:
            if number == 0 and rows.version(table) == versions[0]:
                plan.backup.record_stage(
                    plan.backup.stage
                )  # nothing has changed, so the job may run
            raise
    for ranges, names in ((plan.unended, restored), (plan.since, others)):
        for name in sorted(names if ranges else ()):
            report(f"deleting rows that come again from {name}")
            rows.delete(ranges, [name])


def _way_out(backup: Backup, restored: int) -> str:
    """What the user can do if a table can't be restored, after ``restored`` others."""
    if backup.stage is Stage.DONE and restored == 0:
        return "let the job go on as it is, or bring the rows back by hand"
    return f"put checkpoint and tables right by hand and move {backup.path} away"
