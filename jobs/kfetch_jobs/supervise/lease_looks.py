"""Looks who holds the leases of jobs' checkpoints, for their status: one read each, side by side.

A store that is away delays a status by two seconds at most, for all jobs together.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait

from kfetch.admin.checkpoint import read_lease
from kfetch.errors import KfetchError
from kfetch.storage.lease import Life
from kfetch.storage.open import stored_path
from kfetch.storage.processes import life_of
from kfetch_jobs.config import Job
from kfetch_jobs.supervise.status import LeaseStatus

_REQUEST_S = 1.0
_ALL_S = 2.0
_THREADS = 8


class LeaseLooks:
    """The looks of one status."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "kfetch-lease-look")
        self._looks: dict[str, Future[LeaseStatus | None]] = {}

    def begin(self, job: Job) -> None:
        """Look at the lease of a job's checkpoint, in a thread."""
        self._looks[job.name] = self._pool.submit(_look, job)

    def ended(self) -> dict[str, LeaseStatus | None]:
        """Returns the leases by the names of their jobs; None if nobody holds one."""
        done, _ = wait(self._looks.values(), _ALL_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        late = LeaseStatus(trouble=f"the store did not answer within {_ALL_S:g} s")
        return {name: look.result() if look in done else late for name, look in self._looks.items()}


def _look(job: Job) -> LeaseStatus | None:
    try:
        path = stored_path(job.checkpoint, job.spark, request_s=_REQUEST_S)
        lease = None if path is None else read_lease(path)
    except KfetchError as cause:
        return LeaseStatus(trouble=job.in_own_words(cause.what))
    except Exception as error:  # a status never fails for want of a lease
        return LeaseStatus(trouble=job.in_own_words(str(error)))
    if lease is None or (holder := lease.holder) is None:
        return None
    life = life_of(holder)
    if life is Life.DEAD:
        return None
    return LeaseStatus(
        host=holder.host,
        pid=holder.pid,
        purpose=holder.purpose,
        since_s=lease.since_s,
        here=life is Life.ALIVE,
    )
