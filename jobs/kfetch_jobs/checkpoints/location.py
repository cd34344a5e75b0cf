"""Where a job's checkpoint is: in a directory of this machine, or on another file system."""

from __future__ import annotations

from pathlib import Path

from kfetch_jobs.config import Job
from kfetch_jobs.config.locations import local_path

__all__ = ["local_directory"]


def local_directory(job: Job) -> Path | None:
    """Return the directory of a job's checkpoint; None if it is on another file system."""
    return local_path(job.checkpoint, job.spark)
