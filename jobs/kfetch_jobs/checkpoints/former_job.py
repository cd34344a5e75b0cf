"""Finds a former job that has written the records of a new job to the same table.

A job without a checkpoint starts at ``startingOffsets``. If only its name is new, an append table
would have each row twice. A former job has no file any more, or a disabled one with the same
transform. Other jobs of the project do not count: ``config.cross_checks`` compares those.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kfetch.storage.locations import local_path
from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.checkpoints.location import has_log, has_offsets, queries_of, query_id
from kfetch_jobs.config import Job, TableLocation
from kfetch_jobs.config.models import Transform
from kfetch_jobs.config.yamlfile import display, read
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.progress.reports import read_pulse
from kfetch_jobs.util.files import read_json

_NOTE = "checkpoint.origin.json"
_BOOL = TypeAdapter(bool)
_TRANSFORM = TypeAdapter(Transform | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerJob:
    """A job that nothing starts any more, and whose directory is still in the storage."""

    directory: Path
    topic: str | None
    """A topic that both jobs read; None if nothing tells what the former job has read."""
    table: TableLocation

    def sentence(self, job: Job) -> str:
        """Returns why the job does not start, and how to go on."""
        name, there = self.directory.name, job.directory
        if not (self.directory / "checkpoint").exists():
            go_on = "name its checkpoint in this job's file"
        elif there.exists():  # a rename would put the other one into it
            go_on = f"move all files of {self.directory} to {there}"
        else:
            go_on = f"rename {self.directory} to {there}"
        state, delete, file = "is gone", "", _file(job, name)
        if file.exists():  # without its directory, an enabled job would start anew
            state, delete = "is disabled", f"delete {display(file)}, "
        written = f"topic {self.topic}" if self.topic else "topics that kfetch does not know"
        return (
            f"job {job.name} has no checkpoint yet, and job {name}, whose file {state}, has "
            f"written {written} to the same table {self.table}: a run would write rows "
            f"twice. To continue where {name} ended, stop it (kfetch stop {name}), "
            f"{delete}and {go_on}; to read the topic again nevertheless, set "
            "sink.repeatRows: true in the job's file"
        )


def find_former_job(job: Job) -> FormerJob | None:
    """Returns a former job that has written the new job's records to one of its tables.

    It reads files of this machine only.
    """
    for table in job.appended_tables:
        directory = local_path(table.path, job.spark) if table.path else None
        if directory is None or has_log(directory):
            queries = queries_of(directory) if directory else ()
            if former := former_writer(job, table, queries):
                return former
    return None


def former_writer(job: Job, table: TableLocation, queries: Collection[str]) -> FormerJob | None:
    """Returns a former job that has written the new job's records to this table.

    ``queries`` are the ids of those that have written to it, as far as its log was read. A former
    job of unknown topics counts.
    """
    if table not in job.appended_tables:
        return None
    views = job.file.views()
    subscriptions = [job.parsed_options(view).subscription for view in views]
    for directory in sorted(job.directory.parent.glob("*/")):
        note = read_json(directory / _NOTE)
        # The file may name the former checkpoint: then the new name continues there.
        is_own = directory == job.directory or note.get("checkpoint") == job.checkpoint
        wrote = _notes_table(job, directory, note, table) or queries_by(directory) & {*queries}
        if is_own or directory.name.startswith(".") or not wrote:
            continue  # the checkpoint of a job without this table may be unreadable
        topics = _topics_of(directory, note)
        both = [topic for topic in topics if any(one.includes(topic) for one in subscriptions)]
        if (both or not topics) and _is_former(job, directory.name):
            return FormerJob(directory=directory, topic=both[0] if both else None, table=table)
    return None


def queries_by(directory: Path) -> set[str]:
    """Returns the known ids of the queries of a job, by its directory."""
    pulse = read_pulse(directory)
    found = (query_id(directory / "checkpoint"), pulse.query if pulse else None)
    return {query for query in found if query}


def _file(job: Job, name: str) -> Path:
    return job.document.path.with_name(f"{name}.yml")


def _is_former(job: Job, name: str) -> bool:
    """Whether a job has no file, or one that disables it and has the same transform."""
    file = _file(job, name)
    try:
        document = read(file, os.environ, {"storage": str(job.directory.parent)})
        enabled = _BOOL.validate_python(document.value.get("enabled", True))
        transform = _TRANSFORM.validate_python(document.value.get("transform"))
    except (ConfigError, ValueError):
        return not file.exists()
    return not enabled and transform == job.file.transform


def _notes_table(job: Job, directory: Path, note: Mapping[str, Any], table: TableLocation) -> bool:
    """Whether the note of a job that has run names the table.

    Notes of older versions do not tell whether it has run.
    """
    noted = note.get("tables")
    if not isinstance(noted, list):
        return False
    places = {job.place(_location(str(text))) for text in noted}
    return job.place(table) in places and (
        note.get("ran", True) or has_offsets(directory / "checkpoint")
    )


def _location(noted: str) -> TableLocation:
    """A noted path is absolute, or a URI. A name has no slash."""
    path, name = (noted, None) if "/" in noted else (None, noted)
    return TableLocation(path=path, table=name)


def _topics_of(directory: Path, note: Mapping[str, Any]) -> list[str]:
    """Returns the topics that the note of the runs names, else those of the checkpoint's offsets.

    A pattern has no names, but the note has the ids of the topics that matched it.
    """
    names, ids = note.get("topics"), note.get("topicIds")
    noted = {
        *(names if isinstance(names, list) else ()),
        *(ids if isinstance(ids, dict) else ()),
    }
    checkpoint = directory / "checkpoint"
    if noted or not has_offsets(checkpoint):
        return sorted(map(str, noted))
    try:
        planned = read_checkpoint(checkpoint).planned
    except JobsError:
        return []
    sources = planned.sources if planned else ()
    return sorted({tp.topic for source in sources if source for tp in source.positions})
