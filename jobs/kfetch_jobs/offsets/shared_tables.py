"""Which topics and which jobs may have rows in the tables of a job whose offsets move.

A move must not delete or undo rows of other jobs of the project. Only the topic tells which job
wrote a row. So kfetch refuses a move if the topic does not decide. kfetch does not know jobs whose
file is gone and those of other projects. It names their queries, as far as the table's log does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kfetch.storage.open import StoredPath
from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.checkpoints.backup import Backup, Stage, TableVersion, all_backups
from kfetch_jobs.checkpoints.origin import noted_topic_ids
from kfetch_jobs.checkpoints.topic_history import TopicIds, checkpoint_topic_ids, merged_ids
from kfetch_jobs.config import Job, Project
from kfetch_jobs.errors import ConfigError, JobsError


def jobs_on_same_tables(project: Project, job: Job) -> list[Job]:
    """Returns the other jobs that write to a table from which a replay deletes rows.

    Raises JobsError if the file of another job has a mistake.
    """
    tables = set(map(job.place, job.appended_tables))
    if not tables:
        return []
    others = _others(project, job)
    return [other for other in others if not tables.isdisjoint(map(other.place, other.tables))]


def _others(project: Project, job: Job) -> Iterator[Job]:
    for name in project.jobs():
        try:
            if name != job.name:
                yield project.job(name)
        except ConfigError as cause:
            raise JobsError(
                f"job {job.name}: nobody can tell whether job {name} writes to the same table: "
                f"{cause.message}"
            ) from None


def topics_read(job: Job, checkpoint: StoredPath) -> TopicIds:
    """Returns all topics that a job has ever read, as far as known, with their ids."""
    paths = [checkpoint, *(backup.path for backup in all_backups(checkpoint))]
    return merged_ids([noted_topic_ids(job), *map(checkpoint_topic_ids, paths)])


def check_topics_distinct(job: Job, topics: Collection[str], others: Sequence[Job]) -> None:
    """Raises JobsError if another job's rows may be of the same topic."""
    for other in others:
        if both := sorted(_topics_of_other(job, other).keys() & topics):
            raise JobsError(
                f"job {job.name}: job {other.name} writes rows of topic {both[0]} to the same "
                "table, and nobody can tell whose a row is: delete them yourself and use kfetch "
                "offsets reset, which does not change the table"
            )


def _topics_of_other(job: Job, other: Job) -> TopicIds:
    try:
        return topics_read(other, checkpoints.job_checkpoint(other).path)
    except JobsError as cause:
        raise JobsError(
            f"job {job.name}: job {other.name} writes to the same table, and nobody can tell "
            f"what: {cause.message}"
        ) from None


def other_queries(tables: Iterable[TableVersion], own: str) -> dict[str, list[str]]:
    """Returns the queries beside a job's ``own`` that a table's log names, by table.

    They may be of a job whose file is gone, of another project, or of the job's last checkpoint.
    """
    others = {table.name: sorted(table.queries.keys() - {own}) for table in tables}
    return {name: queries for name, queries in others.items() if queries}


def check_no_writes_since(
    job: Job, backup: Backup, table: TableVersion, queries: Mapping[str, int], own: str
) -> None:
    """Raises JobsError if another query than the job's ``own`` has written to a table since.

    ``queries``: the last micro-batch of each query that the table's log names by now.
    """
    # After an interrupted move, the job may not run.
    go_on = "let the job go on as it is, or " if backup.stage is Stage.DONE else ""
    later = [name for name, at in queries.items() if at > table.queries.get(name, -1)]
    if {*later} - {own}:
        wrote, since = "has written", "since"
        if not table.queries:
            wrote = "may have written"
            since = "since (the record of the move does not say who wrote before)"
        raise JobsError(
            f"job {job.name}: another query than this job's {wrote} to {table.name} {since}, "
            "and to put its version of then back would take those rows away: "
            f"{go_on}restore its rows by hand and move {backup.path} away"
        )
