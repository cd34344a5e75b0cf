"""Finds a renamed or deleted job that has written the records of a new job to the same table.

A job without a checkpoint starts at ``startingOffsets``. If only its name is new, an append table
would have each row twice. Other jobs of the project do not count: ``config.cross_checks`` compares
those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfetch.storage.locations import local_path
from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.checkpoints.location import has_log, has_offsets, queries_of, query_id
from kfetch_jobs.config import Job, TableLocation
from kfetch_jobs.errors import JobsError
from kfetch_jobs.util.files import read_json

_NOTE = "checkpoint.origin.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerJob:
    """A job without a file, whose checkpoint is still in the storage."""

    directory: Path
    topic: str
    table: str

    def sentence(self, job: Job) -> str:
        """Returns why the job does not start, and how to go on."""
        name, there = self.directory.name, job.directory
        # A directory that exists would take the other one in.
        move = (
            f"move all files of {self.directory} to"
            if there.exists()
            else (f"rename {self.directory} to")
        )
        return (
            f"job {job.name} has no checkpoint yet, and job {name}, whose file is gone, has "
            f"written topic {self.topic} to the same table {self.table}: a run would write rows "
            f"twice. To continue where {name} ended, stop it (kfetch stop {name}), and "
            f"{move} {there}; to read the topic again nevertheless, set "
            "sink.repeatRows: true in the job's file"
        )


def find_former_job(job: Job) -> FormerJob | None:
    """Returns a job without a file that has written the new job's records to its table."""
    tables = {job.place(table): table for table in job.appended_tables if _may_exist(job, table)}
    if not tables:
        return None
    views = job.file.views()
    subscriptions = [job.parsed_options(view).subscription for view in views]
    for directory in _directories_without_file(job):
        note = read_json(directory / _NOTE)
        if note.get("checkpoint") == job.checkpoint:
            continue  # the file names its checkpoint, so the new name continues there
        both = sorted(tables.keys() & _tables_of(job, directory, note))
        if not both:
            continue  # the checkpoint of a job without these tables may be unreadable
        topics = [
            topic
            for topic in _topics_of(job, directory, note)
            if any(one.includes(topic) for one in subscriptions)
        ]
        if topics:
            return FormerJob(directory=directory, topic=topics[0], table=str(tables[both[0]]))
    return None


def _directories_without_file(job: Job) -> Iterator[Path]:
    files = job.document.path.parent
    for directory in sorted(job.directory.parent.glob("*/")):
        hidden = directory.name.startswith(".")
        if not hidden and directory != job.directory and not _exists(files, directory.name):
            yield directory


def _exists(files: Path, name: str) -> bool:
    return (files / f"{name}.yml").exists()


def _tables_of(job: Job, directory: Path, note: Mapping[str, Any]) -> set[str]:
    """Returns the places of the former job's tables: by its note, else by the tables' own logs.

    Before kfetch noted tables, the log had the query's id already.
    """
    if isinstance(noted := note.get("tables"), list):
        return {job.place(_location(str(text))) for text in noted}
    query = query_id(directory / "checkpoint")
    local = {table: local_path(table.path, job.spark) for table in job.tables if table.path}
    return {job.place(table) for table, path in local.items() if path and query in queries_of(path)}


def _location(noted: str) -> TableLocation:
    """A noted path is absolute, or a URI. A name has no slash."""
    path, name = (noted, None) if "/" in noted else (None, noted)
    return TableLocation(path=path, table=name)


def _may_exist(job: Job, table: TableLocation) -> bool:
    """Whether a table has rows, as far as files of this machine show."""
    directory = local_path(table.path, job.spark) if table.path else None
    return directory is None or has_log(directory)


def _topics_of(job: Job, directory: Path, note: Mapping[str, Any]) -> list[str]:
    """Returns the topics of the checkpoint's offsets, or those that the note of a run names."""
    checkpoint = directory / "checkpoint"
    if not has_offsets(checkpoint):
        elsewhere = local_path(str(note.get("checkpoint")), job.spark) is None
        noted = note.get("topics") if elsewhere else None
        return list(map(str, noted)) if isinstance(noted, list) else []
    try:
        planned = read_checkpoint(checkpoint).planned
    except JobsError:
        return []
    sources = planned.sources if planned else ()
    return sorted({tp.topic for source in sources if source for tp in source.positions})
