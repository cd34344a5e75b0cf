"""One process at a time for a job and its checkpoint: a run, or a move of its offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kfetch_jobs.checkpoints import checkpoint as checkpoints
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.util.files import try_lock

__all__ = ["hold_job_lock"]


@contextmanager
def hold_job_lock(job: Job) -> Iterator[None]:
    """Refuse to work beside another: two queries on one checkpoint end each other."""
    with ExitStack() as held:
        for path in _locks(job):
            if not held.enter_context(try_lock(path)):
                raise JobsError(
                    f"job {job.name} runs here already, or another on its checkpoint (process "
                    f"{path.read_text() or '?'}): end that run first, with kfetch pause "
                    f"{job.name} if kfetch up runs it, else with SIGTERM"
                )
        yield


def _locks(job: Job) -> list[Path]:
    """The job's, and beside a local checkpoint the checkpoint's: other projects may name it."""
    path = checkpoints.local_directory(job)
    return [job.directory / "lock", *([Path(f"{path}.lock")] if path else [])]
