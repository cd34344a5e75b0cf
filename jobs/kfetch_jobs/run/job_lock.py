"""One process at a time for a job and its checkpoint: a run, or a move of the job's offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kfetch_jobs.checkpoints.location import local_directory
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.util.files import try_lock


@contextmanager
def hold_job_lock(job: Job) -> Iterator[None]:
    """Hold the locks of a job and of its checkpoint for the block.

    Two queries on one checkpoint would end each other. Raises JobsError if another process holds a
    lock.
    """
    with ExitStack() as locks:
        for path in _lock_files(job):
            if not locks.enter_context(try_lock(path)):
                raise JobsError(
                    f"job {job.name} runs here already, or another on its checkpoint (process "
                    f"{path.read_text() or '?'}): end that run first, with kfetch pause "
                    f"{job.name} if kfetch up runs it, else with SIGTERM"
                )
        yield


def _lock_files(job: Job) -> list[Path]:
    """The job's lock, and one beside a local checkpoint: another project may name it too."""
    path = local_directory(job)
    return [job.directory / "lock", *([Path(f"{path}.lock")] if path else [])]
