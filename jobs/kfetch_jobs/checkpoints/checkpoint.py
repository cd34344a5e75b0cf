"""Reads the checkpoint of a job from this machine's disk. See ``kfetch.admin.checkpoint``."""

from __future__ import annotations

from pathlib import Path

from kfetch.admin import checkpoint as files
from kfetch.admin.checkpoint import Checkpoint
from kfetch.admin.offset_log import PlannedBatch, Writer
from kfetch.errors import CheckpointError
from kfetch_jobs.checkpoints.location import local_directory
from kfetch_jobs.checkpoints.origin import check_environment
from kfetch_jobs.config import Job
from kfetch_jobs.config.locations import has_scheme
from kfetch_jobs.errors import JobsError

__all__ = ["Checkpoint", "PlannedBatch", "job_checkpoint", "read_checkpoint"]

_ACTION = "restore the checkpoint's directory from a backup, or give the job a new one"


def job_checkpoint(job: Job) -> Checkpoint:
    """Returns a job's checkpoint.

    Raises JobsError if it is not local, or unreadable, or if its runs had another environment.
    """
    path = local_directory(job)
    if path is None:
        raise JobsError(
            f"the checkpoint {job.checkpoint} is not on this machine{_default(job)}, and kfetch "
            "reads those alone: copy its directories offsets and commits here, and name the copy "
            "in the job's file"
        )
    check_environment(job)
    return read_checkpoint(path)


def _default(job: Job) -> str:
    """Why a path without a scheme is not on this machine."""
    return "" if has_scheme(job.checkpoint) else " (spark.hadoop.fs.defaultFS names another)"


def read_checkpoint(path: Path) -> Checkpoint:
    """Returns the checkpoint in a directory; an empty one if there is none.

    A job reads from Kafka alone, and its moves of offsets write version 1 alone. Raises JobsError
    for any other checkpoint.
    """
    try:
        checkpoint = files.read_checkpoint(path)
    except CheckpointError as cause:
        raise JobsError(cause.what, action=_ACTION) from None
    planned = checkpoint.planned
    if planned is not None and planned.version != "v1":
        raise _unusable(checkpoint, f"is of version {planned.version}, and this kfetch knows v1")
    if any(line.writer is Writer.OTHER for line in checkpoint.lines):
        raise _unusable(checkpoint, "can't be used: it has offsets of other sources")
    return checkpoint


def _unusable(checkpoint: Checkpoint, why: str) -> JobsError:
    assert checkpoint.planned is not None
    file = checkpoint.path / "offsets" / str(checkpoint.planned.number)
    return JobsError(f"the checkpoint's {file} {why}", action=_ACTION)
