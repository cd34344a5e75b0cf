"""How far a running job is behind: what its drivers see, else what its last micro-batch left."""

from __future__ import annotations

from dataclasses import dataclass

from kfetch_jobs.config import Job
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.reports import Pulse, read_backlog

OLD_S = 10.0
"""A driver writes each second, unless no broker answers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLag:
    """The lag of a job."""

    offsets: int | None = None
    """Offsets that no committed micro-batch has; None while the number is unknown."""
    seconds: float = 0.0
    """The next one has waited at least this long."""
    at: float | None = None
    """When the driver saw the log ends: seconds since 1970."""
    at_least: bool = False
    """Whether the lag may be larger: the log ends are old, or a broker does not answer."""


def job_lag(
    job: Job, started_s: float, pulse: Pulse | None, last: Batch | None, now: float
) -> JobLag:
    """Returns the lag of a run that began at ``started_s``. ``last``: its job's last batch."""
    if pulse is None:
        return JobLag()
    if last is not None and last.finished < started_s:
        last = None
    backlog = read_backlog(job, started_s)
    if backlog is None:
        return JobLag(offsets=pulse.lag, seconds=_waiting_s(pulse, now), at=pulse.at)
    offsets, seconds = backlog.lag(last, now)
    if offsets:
        # One may be missing: the run hangs between line and pulse, or the disk is full.
        newest = last if last is not None and last.batch >= (pulse.batch or 0) else pulse
        seconds = max(seconds, _waiting_s(newest, now))
    old = now - backlog.at > OLD_S
    return JobLag(offsets=offsets, seconds=round(seconds, 3), at=backlog.at, at_least=old)


def _waiting_s(newest: Pulse | Batch, now: float) -> float:
    # No micro-batch has ended since: the same offset still waits.
    at = newest.at if isinstance(newest, Pulse) else newest.finished
    return round(newest.lag_s + max(0.0, now - at), 3) if newest.lag else 0.0
