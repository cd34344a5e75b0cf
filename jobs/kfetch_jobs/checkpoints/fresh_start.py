"""Refuses to start a job anew that has run before: the one rule, and its way out.

A job without offsets in its checkpoint starts at ``startingOffsets``. With ``latest`` it would skip
all records since its last run. With ``earliest`` it would write each row twice. So a job must not
start if traces show earlier runs: the note beside its checkpoint, its progress, the log of a table,
or a job that was renamed. ``sink.repeatRows`` allows a wanted new start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kfetch.storage.locations import local_path
from kfetch_jobs.checkpoints.former_job import find_former_job, former_writer, queries_by
from kfetch_jobs.checkpoints.location import has_run, local_directory, queries_of
from kfetch_jobs.checkpoints.origin import noted_runs
from kfetch_jobs.config import Job, TableLocation
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.progress.progress_file import last_batch


def check_fresh_start(job: Job) -> None:
    """Raises ConfigError if the job would start anew although it, or a former job, has run."""
    if sentence := fresh_start_refusal(job):
        raise ConfigError(sentence)


def fresh_start_refusal(job: Job, offsets: bool | None = None) -> str:
    """Returns why the job must not start anew; nothing if it may, or if it has a checkpoint.

    ``offsets``: whether its checkpoint has some, for a caller that has read it. Without that, it
    reads files of this machine only, and assumes that a checkpoint elsewhere has offsets.
    """
    elsewhere = offsets is None and local_directory(job) is None
    try:
        if job.file.sink.repeatRows or (has_run(job) if offsets is None else offsets):
            return ""
        if former := find_former_job(job):
            return former.sentence(job)
        return "" if elsewhere else lost_offsets(job)
    except JobsError as error:  # one job's checkpoint must not stop the others
        return f"job {job.name}: {error.message}"


def lost_offsets(job: Job) -> str:
    """Returns which trace shows that a job without offsets has run before; nothing without one."""
    if trace := noted_runs(job) or (job.directory if last_batch(job.directory) else None):
        return _refusal(job, f"{trace} tells of its earlier runs")
    for table in job.tables:
        directory = local_path(str(table.path), job.spark) if table.path else None
        if directory is not None and (sentence := check_queries(job, table, queries_of(directory))):
            return sentence
    return ""


def check_queries(job: Job, table: TableLocation, queries: Collection[str]) -> str:
    """Returns why a job without offsets must not start; nothing if it may.

    ``queries`` are the ids of the queries that have written to the table.
    """
    if queries and (former := former_writer(job, table, queries)):
        return former.sentence(job)
    if set(queries) - set(_queries_of_others(job)):
        return _refusal(job, f"its table {table} has rows of a query that this storage lacks")
    return ""


def _refusal(job: Job, trace: str) -> str:
    return (
        f"job {job.name} has no offsets in its checkpoint {job.checkpoint}, but {trace}: a new "
        "start would skip records or write rows twice. Bring the checkpoint back, or correct "
        "storage or checkpoint in the files; to start anew nevertheless, set "
        "sink.repeatRows: true in the job's file"
    )


def _queries_of_others(job: Job) -> Iterator[str]:
    """The ids of the queries of other jobs, whether their files are there or not."""
    for directory in job.directory.parent.glob("*/"):
        if directory != job.directory:
            yield from queries_by(directory)
