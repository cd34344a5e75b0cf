"""Looks who holds the leases of jobs' checkpoints, for their status: one read each, side by side.

A store that is away delays a status by two seconds at most, for all jobs together.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

from kfetch.errors import KfetchError
from kfetch.storage.lease import Life, Sight, parse
from kfetch.storage.processes import life_of
from kfetch.storage.versions import VersionedFile
from kfetch_jobs.checkpoints.location import lease_file
from kfetch_jobs.config import Job
from kfetch_jobs.supervise.status import LeaseStatus

_REQUEST_S = 1.0
_ALL_S = 2.0
_THREADS = 8
_CLOCKS_S = 300.0
"""The clocks of a host and of the store may differ so much."""


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
        return {name: one.result() if one in done else late for name, one in self._looks.items()}


def _look(job: Job) -> LeaseStatus | None:
    try:
        file = lease_file(job, request_s=_REQUEST_S)
        return lease_status(file) if file else None
    except KfetchError as cause:
        return LeaseStatus(trouble=job.user_sentence(cause.what))
    except Exception as error:  # a status never fails for want of a lease
        return LeaseStatus(trouble=job.user_sentence(str(error)))


def lease_status(file: VersionedFile, own: str = "") -> LeaseStatus | None:
    """Returns who holds a lease; None if nobody does, or if its holder has died on this machine.

    A lease counts as over after five minutes. With the purpose ``own`` it does so at its end.
    """
    try:
        version = file.read()
    except OSError as cause:
        return LeaseStatus(trouble=f"{cause.filename} can't be read: {cause.strerror}")
    lease = parse(version.content) if version else None
    if version is None or lease is None or (holder := lease.holder) is None:
        return None
    life = life_of(holder)
    if life is Life.DEAD:
        return None
    ends_s = Sight(version.token, lease, version.written_s).ends_at()
    here = life is Life.ALIVE
    spare_s = 0.0 if here and holder.purpose == own else _CLOCKS_S
    return LeaseStatus(
        host=holder.host,
        pid=holder.pid,
        purpose=holder.purpose,
        since_s=lease.since_s,
        here=here,
        over_s=ends_s if ends_s + spare_s < time.time() else None,
    )
