"""Undoing a move: the tables first, then the checkpoint.

A job that has not run since gets its checkpoint back file by file. Else it goes on where it stood
then, and rows that it will write from there on are taken out of its tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch_jobs.checkpoints import backup as backups
from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.checkpoints.backup import Backup, OffsetRange, Stage
from kfetch_jobs.checkpoints.checkpoint import Checkpoint
from kfetch_jobs.config import Job, Project
from kfetch_jobs.errors import JobsError
from kfetch_jobs.offsets import checkpoint_log
from kfetch_jobs.offsets.moves import Verb
from kfetch_jobs.offsets.shared_tables import check_no_writes_since, jobs_on_same_tables, topics_of
from kfetch_jobs.offsets.table_rows import AppendedRows, appended_tables, open_rows

__all__ = ["UndoPlan", "plan_undo", "undo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """What ``undo`` would do."""

    job: str
    backup: Backup
    before: Checkpoint
    """As it was."""
    now: Checkpoint
    exact: bool
    """The job has not run since: its checkpoint becomes what it was, file by file."""
    sources: tuple[Offsets | None, ...]
    """Where each source goes on afterwards."""
    kept: tuple[TopicPartition, ...]
    """They were not there then, and stay where they are."""

    def positions(self) -> Iterator[tuple[TopicPartition, int | None, int]]:
        """Each partition, where it is and where it will be."""
        for number, offsets in enumerate(self.sources):
            here = self.now.start(number)
            for tp, position in sorted(offsets.positions.items()) if offsets else ():
                at = here.positions.get(tp) if here else None
                yield tp, at.offset if at else None, position.offset

    @property
    def rewrites(self) -> bool:
        """Whether tables are changed, too."""
        return bool(self.backup.tables or self.since)

    @property
    def unended(self) -> list[OffsetRange]:
        """The micro-batch that had no commit then: its rows may be in what is restored."""
        if self.exact or not self.before.pending:
            return []
        count = range(self.before.sources)
        return [
            each
            for n in count
            for each in _ranges(_positions(self.before.start(n)), _positions(self.before.end(n)))
        ]

    @property
    def since(self) -> list[OffsetRange]:
        """What may have been written since to tables that are not restored."""
        if self.exact or self.backup.verb != Verb.REPLAY:
            return []
        moved = {TopicPartition(each.topic, each.partition): each for each in self.backup.ranges}
        return [each for n in range(self.before.sources) for each in self._since(n, moved)]

    def _since(
        self, source: int, moved: Mapping[TopicPartition, OffsetRange]
    ) -> Iterator[OffsetRange]:
        begins = _positions(self.before.start(source))
        ends, now = _positions(self.before.end(source)), _positions(self.now.end(source))
        ends = {tp: max(ends.get(tp, 0), now.get(tp, 0)) for tp in ends | now}
        begins |= {tp: moved[tp].begin for tp in ends.keys() & moved.keys()}
        return _ranges(begins, ends)


def _ranges(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[OffsetRange]:
    """A partition without a beginning was new: from its start."""
    for tp, end in sorted(ends.items()):
        if (begin := begins.get(tp, 0)) < end:
            yield OffsetRange(topic=tp.topic, partition=tp.partition, begin=begin, end=end)


def _positions(offsets: Offsets | None) -> dict[TopicPartition, int]:
    return {tp: at.offset for tp, at in offsets.positions.items()} if offsets else {}


def plan_undo(job: Job) -> UndoPlan:
    """What the undoing of the last move would do. Raises JobsError if there is nothing to undo."""
    now = checkpoints.job_checkpoint(job)
    found = backups.last_move(now.path)
    if found is None:
        raise JobsError(
            f"job {job.name}: there is no move of its offsets to undo in {now.path}.backups"
        )
    before = found.checkpoint
    if before.query != now.query:
        raise JobsError(
            f"{now.path} is the checkpoint of another query ({now.query}) than {found.path} "
            f"({before.query}): move that backup away"
        )
    exact = now.planned is None or now.planned.number <= found.batch
    sources = [before.start(n) for n in range(before.sources)]
    # The rows of a replay's new partitions go, and come again; after a reset they are in the table.
    keeps = found.verb == Verb.RESET and not exact
    grown = [_grown(each, now.start(n)) if keeps else {} for n, each in enumerate(sources)]
    return UndoPlan(
        job=job.name,
        backup=found,
        before=before,
        now=now,
        exact=exact,
        sources=tuple(_with(each, now.start(n), grown[n]) for n, each in enumerate(sources)),
        kept=tuple(sorted(tp for each in grown for tp in each)),
    )


def _grown(then: Offsets | None, now: Offsets | None) -> dict[TopicPartition, Position]:
    """Positions that were not there then, of topics that are the same."""
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


def undo(project: Project, job: Job, plan: UndoPlan) -> None:
    """Put back what was, within ``at_rest``."""
    others = jobs_on_same_tables(project, job)
    check_no_writes_since(job, plan.backup, others)
    _check_ended(job, plan)
    if plan.rewrites and (plan.backup.tables or appended_tables(job)):
        read = _topics(plan.before) | _topics(plan.now)
        with open_rows(job, len(read) > 1 or bool(others)) as rows:
            _put_back(rows, plan)
    backup = plan.backup.at(Stage.UNDOING)
    if plan.exact:
        checkpoint_log.remove_batch(plan.now.path, backup.batch)
    else:
        checkpoint_log.add_batch(plan.now, plan.sources, time.time())
    backup.at(Stage.UNDONE)


def _check_ended(job: Job, plan: UndoPlan) -> None:
    """Where the table is left alone, a batch without its commit may come twice."""
    left_alone = plan.backup.verb == Verb.RESET and not plan.exact and appended_tables(job)
    begun = plan.backup.stage is Stage.UNDOING  # its own micro-batch may lack the commit
    for each, way_out in (
        (plan.before, "use kfetch offsets replay, which deletes them, to go back instead"),
        (plan.now, "let kfetch run end it first"),
    ):
        if left_alone and not begun and each.pending and each.planned:
            raise JobsError(
                f"job {job.name}: micro-batch {each.planned.number} was planned, and its end is "
                f"not noted: the table may have its rows already, and they would come again: "
                f"{way_out}"
            )


def _topics(checkpoint: Checkpoint) -> set[str]:
    count = range(checkpoint.sources)
    return topics_of(each for n in count for each in (checkpoint.start(n), checkpoint.end(n)))


def _put_back(rows: AppendedRows, plan: UndoPlan) -> None:
    """Restore what rows were deleted from; delete what came since from the other tables."""
    restored = rows.names & {table.name for table in plan.backup.tables}
    others = rows.names - restored
    rows.check([*(restored if plan.unended else ()), *(others if plan.since else ())])
    versions = [rows.version(table) for table in plan.backup.tables]
    plan.backup.at(Stage.UNDOING)
    for number, table in enumerate(plan.backup.tables):
        try:
            rows.restore(table, _way_out(plan.backup, number))
        except Exception:
            if number == 0 and rows.version(table) == versions[0]:
                plan.backup.at(plan.backup.stage)  # nothing was done: it must not keep the job
            raise
    rows.delete(plan.unended, restored)
    rows.delete(plan.since, others)


def _way_out(backup: Backup, restored: int) -> str:
    """What is left to do, if a table can't be restored after so many others."""
    if backup.stage is Stage.DONE and restored == 0:
        return "let the job go on as it is, or bring the rows back by hand"
    return f"put checkpoint and tables right by hand and move {backup.path} away"
