"""Where a job's checkpoint is, on this machine or elsewhere, and whether a run has used it."""

from __future__ import annotations

import os
from pathlib import Path

from kfetch_jobs.config import Job
from kfetch_jobs.config.locations import local_path
from kfetch_jobs.util.files import read_json


def local_directory(job: Job) -> Path | None:
    """Returns the directory of a job's checkpoint; None if it is on another file system."""
    return local_path(job.checkpoint, job.spark)


def note_path(job: Job) -> Path:
    """Returns the path of the note about the checkpoint's runs: beside it, if that is local."""
    local = local_directory(job)
    return Path(f"{local}.origin.json") if local else job.directory / "checkpoint.origin.json"


def has_run(job: Job) -> bool:
    """Returns whether the checkpoint has offsets. Of a remote one, only the note of a run tells."""
    local = local_directory(job)
    return note_path(job).exists() if local is None else has_offsets(local)


def has_offsets(checkpoint: Path) -> bool:
    """Returns whether a micro-batch was planned in a local checkpoint."""
    try:
        return any(name.isdigit() for name in os.listdir(checkpoint / "offsets"))
    except OSError:
        return False


def query_id(checkpoint: Path) -> str | None:
    """Returns the id of the query to which a local checkpoint belongs; None without one."""
    found = read_json(checkpoint / "metadata").get("id")
    return None if found is None else str(found)
