"""One process at a time for a job and its checkpoint: a run, or a move of the job's offsets.

    lock      in the job's directory: one process of this machine writes the job's files
    lease     beside the checkpoint: one process of all hosts writes the checkpoint

See ``kfetch.storage.lease``. If this process can't renew the lease, the kernel ends it with the
lease.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kfetch.errors import CheckpointError, CheckpointInUse, LeaseLost
from kfetch.storage.lease import LENGTH_S
from kfetch.storage.lease_holder import HeldLease, Surroundings, take
from kfetch.storage.open import StoredPath
from kfetch.storage.processes import clock, process_end, this_process
from kfetch.storage.versions import VersionedDirectory
from kfetch_jobs.checkpoints.half_written import remove_half_written
from kfetch_jobs.checkpoints.lease_note import noted_lease
from kfetch_jobs.checkpoints.location import lease_file
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.progress.term_file import TermFile
from kfetch_jobs.util.files import try_lock
from kfetch_jobs.util.mounts import file_system_of, is_shared

log = logging.getLogger("kfetch_jobs.run")

_LENGTH_S = LENGTH_S
_REQUEST = 1 / 6
"""The share of a lease that one request to a store may take."""
_WAYS = "kfetch pause {job} if kfetch up runs it, else with SIGTERM"


@dataclass(frozen=True, slots=True)
class Fence:
    """What allows this process to write the checkpoint."""

    lease: HeldLease | None
    """None for a checkpoint that no other host uses, as the job's file says."""
    term: TermFile | None
    """For a run whose supervisor must lead the project, too."""

    def check(self) -> None:
        """Raises LeaseLost if another process may write. Call it right before a commit."""
        if self.term and (trouble := self.term.trouble()):
            raise LeaseLost(trouble, action="the run has stopped, because another one may go on")
        if self.lease:
            self.lease.check()

    def trouble(self) -> str:
        """Returns why the work must stop; nothing while all is well. It asks nobody."""
        trouble = self.term.trouble() if self.term else ""
        return trouble or (self.lease.trouble() if self.lease else "")


@contextmanager
def hold_job(job: Job, purpose: str, term: TermFile | None = None) -> Iterator[Fence]:
    """Hold a job and its checkpoint for the block. ``purpose``: for others, ``run of job clicks``.

    ``term``: that of the run's supervisor, if the project has several.

    Raises JobsError if another process holds one of them. Waits for a holder on another host that
    gives no sign of life, 40 seconds at most. Raises ConfigError if no lease can be held there.
    """
    with ExitStack() as held:
        _lock(job, held)
        yield Fence(_lease(job, purpose, held), term)


def _lock(job: Job, held: ExitStack) -> None:
    path = job.directory / "lock"
    if not held.enter_context(try_lock(path)):
        raise JobsError(
            f"job {job.name} runs here already (process {path.read_text() or '?'})",
            action=f"end that run first, with {_WAYS.format(job=job.name)}",
        )


def _lease(job: Job, purpose: str, held: ExitStack) -> HeldLease | None:
    file = lease_file(job, request_s=_LENGTH_S * _REQUEST)
    if file is None:
        return None
    suspends = isinstance(file, VersionedDirectory) and not _may_be_shared(file.path)
    try:
        holding = take(
            file,
            this_process(purpose),
            length_s=_LENGTH_S,
            around=Surroundings(clock=clock(suspends=suspends)),
            report=log.warning,
            switch=process_end(suspends=suspends),
            noted=None if suspends else noted_lease(job),  # a note's clock never stands still
        )
        lease = held.enter_context(holding)
        if lease.took_over:
            _clean_up(job, lease)
        return lease
    except CheckpointInUse as cause:
        ways = _WAYS.format(job=job.name)
        raise JobsError(
            f"job {job.name}: {cause.what}", action=f"end that process first, with {ways}"
        ) from None
    except CheckpointError as cause:
        raise JobsError(f"job {job.name}: {cause.what}", action=cause.action) from None


def _clean_up(job: Job, lease: HeldLease) -> None:
    """Do what a run that takes over must do. If it can't, the next run takes over again."""
    try:
        remove_half_written(job)
    except BaseException:
        lease.abandon()
        raise


def _may_be_shared(path: StoredPath) -> bool:
    """Returns whether other machines may write there. If not, the lease's clock may stand still."""
    if not isinstance(path, Path):
        return True
    kind = file_system_of(path)
    return not kind or is_shared(kind)
