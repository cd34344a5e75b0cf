"""Reads the checkpoint of a job. See ``kfetch.admin.checkpoint``."""

from __future__ import annotations

from kfetch.admin import checkpoint as files
from kfetch.admin.checkpoint import Checkpoint
from kfetch.admin.offset_log import Writer
from kfetch.errors import CheckpointError
from kfetch.storage.locations import has_scheme
from kfetch.storage.open import READABLE, StoredPath
from kfetch_jobs.checkpoints.location import ANEW, checkpoint_path
from kfetch_jobs.checkpoints.origin import check_environment
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.progress.progress_file import last_batch

_ACTION = f"restore the checkpoint's directory from a backup, or {ANEW}"


def job_checkpoint(job: Job, *, quick: bool = False) -> Checkpoint:
    """Returns a job's checkpoint, on this machine or in an object store.

    A ``quick`` look at a store lists the micro-batches from the last one on that the job's progress
    on this host has. It is not for commands that write.

    Raises JobsError if kfetch has no driver for its file system, if it is unreadable, or if its
    runs had another environment.
    """
    path = checkpoint_path(job)
    if path is None:
        raise _elsewhere(job, f"kfetch reads only {READABLE}")
    check_environment(job)
    last = last_batch(job.directory)
    return read_checkpoint(path, near=(last.batch if last else 0) if quick else None)


def check_movable(job: Job) -> None:
    """Raises JobsError if kfetch can't write the checkpoint. See ``job_checkpoint``."""
    if checkpoint_path(job) is None:
        raise _elsewhere(job, f"kfetch moves offsets only in {READABLE}")


def _elsewhere(job: Job, why: str) -> JobsError:
    return JobsError(
        f"the checkpoint {job.checkpoint} is not on this machine{_default(job)}, and {why}",
        action="Copy its directories offsets, commits and sources and its file metadata here, "
        "and name the copy in the job's file",
    )


def _default(job: Job) -> str:
    """Why a path without a scheme is not on this machine."""
    return "" if has_scheme(job.checkpoint) else " (spark.hadoop.fs.defaultFS names another)"


def read_checkpoint(path: StoredPath, *, near: int | None = None) -> Checkpoint:
    """Returns the checkpoint at a path; an empty one if there is none.

    ``near``: see ``kfetch.admin.checkpoint``. A job reads only from Kafka, and moves of its offsets
    write only version 1. Raises JobsError for any other checkpoint.
    """
    try:
        checkpoint = files.read_checkpoint(path, near=near)
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
