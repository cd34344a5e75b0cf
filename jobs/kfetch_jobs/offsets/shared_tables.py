"""Other jobs of the project that write to the same tables as a job whose offsets move.

A move must not delete or undo rows of other jobs. Only the topic tells which job wrote a row. So
kfetch refuses a move if the topic does not decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from kfetch.admin.checkpoint import Checkpoint, batch_numbers
from kfetch.admin.query import Offsets
from kfetch.storage.open import StoredPath
from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.checkpoints.backup import Backup, Stage
from kfetch_jobs.config import Job, Project
from kfetch_jobs.errors import JobsError


def jobs_on_same_tables(project: Project, job: Job) -> list[Job]:
    """Returns the other jobs that write to a table from which a replay deletes rows."""
    tables = set(map(job.place, job.appended_tables))
    others = project.jobs_and_mistakes()[0].values()
    return [other for other in others if other.name != job.name and tables & _tables(other)]


def _tables(job: Job) -> set[str]:
    return set(map(job.place, job.tables))


def topics_of(offsets: Iterable[Offsets | None]) -> set[str]:
    """Returns the topics of the offsets of a checkpoint's sources."""
    return {tp.topic for source in offsets if source for tp in source.positions}


def check_topics_distinct(job: Job, topics: set[str], others: Sequence[Job]) -> None:
    """Raises JobsError if another job's rows may be of the same topic."""
    for other in others:
        planned = _checkpoint(job, other).planned
        if both := sorted(topics & topics_of(planned.sources if planned else ())):
            raise JobsError(
                f"job {job.name}: job {other.name} writes rows of topic {both[0]} to the same "
                "table, and nobody can tell whose a row is: delete them yourself and use kfetch "
                "offsets reset, which does not change the table"
            )


def check_no_writes_since(job: Job, backup: Backup, others: Sequence[Job]) -> None:
    """Raises JobsError if another job may have written to a table since the backup."""
    names = {job.place(table.location): table.name for table in backup.tables}
    # After an interrupted move, the job may not run.
    go_on = "let the job go on as it is, or " if backup.stage is Stage.DONE else ""
    for other in others:
        both = sorted(names.keys() & _tables(other))
        if both and _wrote(_checkpoint(job, other), backup):
            raise JobsError(
                f"job {job.name}: job {other.name} has written to {names[both[0]]} since, and to "
                f"put its version of then back would take those rows away: {go_on}"
                f"restore its rows by hand and move {backup.path} away"
            )


def _checkpoint(job: Job, other: Job) -> Checkpoint:
    try:
        return checkpoints.job_checkpoint(other)
    except JobsError as cause:
        raise JobsError(
            f"job {job.name}: job {other.name} writes to the same table, and nobody can tell "
            f"what: {cause.message}"
        ) from None


def _wrote(checkpoint: Checkpoint, backup: Backup) -> bool:
    """Whether a job may have written since the backup, perhaps in a batch without its commit."""
    logs = (checkpoint.path / name for name in ("offsets", "commits"))
    return checkpoint.pending or any(_newest_s(log) > backup.at_s for log in logs)


def _newest_s(log: StoredPath) -> float:
    numbers = batch_numbers(log)
    if not numbers:
        return 0.0
    newest = log / str(numbers[-1])
    return newest.stat().st_mtime if isinstance(newest, Path) else newest.written_s()
