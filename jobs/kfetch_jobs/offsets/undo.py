"""Undoes a move that the job has not run since: the tables first, then the checkpoint.

kfetch removes the move's micro-batch from the checkpoint. The tables from which a replay deleted
rows get their versions from before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from kfetch.admin.checkpoint import Checkpoint
from kfetch.model import TopicPartition
from kfetch_jobs.checkpoints import backup as backups
from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.checkpoints.backup import Backup, Stage
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.offsets import checkpoint_log
from kfetch_jobs.offsets.execution import Report, silent
from kfetch_jobs.offsets.shared_tables import check_no_writes_since
from kfetch_jobs.offsets.table_rows import AppendedRows, open_rows
from kfetch_jobs.progress.batch import RowsRestored
from kfetch_jobs.progress.progress_file import append_entry
from kfetch_jobs.run.tables import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The plan for undoing a move."""

    job: str
    backup: Backup
    before: Checkpoint
    """The checkpoint before the move."""
    now: Checkpoint

    def positions(self) -> Iterator[tuple[TopicPartition, int | None, int]]:
        """Yields each partition with its present offset and its offset afterwards."""
        for number in range(self.before.sources):
            here, there = self.now.start(number), self.before.start(number)
            for tp, position in sorted(there.positions.items()) if there else ():
                at = here.positions.get(tp) if here else None
                yield tp, at.offset if at else None, position.offset


def plan_undo(job: Job) -> UndoPlan:
    """Returns the plan for undoing the last move.

    Raises JobsError if there is nothing to undo, or if the job has run since.
    """
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
    if now.planned is not None and now.planned.number > backup.batch:
        raise JobsError(
            f"job {job.name} has run since {backup.description}, and kfetch undoes a move only "
            f"before the next run: move the job with kfetch offsets reset or replay; "
            f"kfetch checkpoint show {backup.path} prints its offsets from before the move"
        )
    return UndoPlan(job=job.name, backup=backup, before=before, now=now)


def undo(job: Job, plan: UndoPlan, check: Check, *, report: Report = silent) -> None:
    """Carry out the plan, within ``jobs_at_rest``, which yields ``check``.

    The jobs of ``jobs_on_same_tables`` must be at rest too. ``report`` gets the steps.

    Raises JobsError if a table cannot go back to its version, or if another query has written to
    it since.
    """
    if plan.backup.tables:
        report("starting Spark, for the tables")
        with open_rows(job) as rows:
            for table in plan.backup.tables:
                queries = rows.queries_of(table)
                check_no_writes_since(job, plan.backup, table, queries, plan.now.query)
            check()
            _restore_tables(rows, plan.backup, report)
    report("restoring the checkpoint")
    check()
    backup = plan.backup.record_stage(Stage.UNDOING)
    checkpoint_log.remove_batch(plan.now.path, backup.batch)
    backup.record_stage(Stage.UNDONE)
    if backup.tables:
        with suppress(OSError):  # only the page reads it
            append_entry(job.directory, RowsRestored(restored=backup.batch))


def _restore_tables(rows: AppendedRows, backup: Backup, report: Report) -> None:
    versions = [rows.version(table) for table in backup.tables]
    backup.record_stage(Stage.UNDOING)
    for number, table in enumerate(backup.tables):
        report(f"restoring {table.name} to version {table.version}")
        try:
            rows.restore(table, _way_out(backup, number))
        except Exception:
            if number == 0 and rows.version(table) == versions[0]:
                backup.record_stage(backup.stage)  # nothing has changed, so the job may run
            raise


def _way_out(backup: Backup, restored: int) -> str:
    """What the user can do if a table can't be restored, after ``restored`` others."""
    if backup.stage is Stage.DONE and restored == 0:
        return "let the job go on as it is, or bring the rows back by hand"
    return f"put checkpoint and tables right by hand and move {backup.path} away"
