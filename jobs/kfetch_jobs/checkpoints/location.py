"""Where a job's checkpoint is: in a directory of this machine, or on another file system."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from kfetch_jobs.config import Job

__all__ = ["local_directory"]


def local_directory(job: Job) -> Path | None:
    """Return the directory of a job's checkpoint; None if it is on another file system."""
    if "://" not in job.checkpoint:
        return Path(job.checkpoint)
    parts = urlsplit(job.checkpoint)
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return Path(unquote(parts.path)) if local else None
