"""When a job runs, and how the supervisor reacts to a failure; times of cron expressions: pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

_EXPONENT_MAX = 64
"""No pause grows so often. A larger exponent would overflow."""


@dataclass(frozen=True, slots=True)
class CronTimes:
    """The times of a cron expression, as Debian's cron counts them.

    If a change of the clocks leaves out a daily time, the time comes right after the change. If a
    time comes twice, it counts once.

    cronsim goes on by whole hours. Where clocks change by half an hour, on Lord Howe Island, it may
    leave out times of the day of the change.
    """

    expression: str
    zone: str

    def next(self, now: float) -> float:
        """Returns the first time after ``now``; both in seconds since 1970.

        In an hour that comes twice, cronsim may count from its first occurrence: it drops ``fold``.
        """
        start = datetime.fromtimestamp(now, ZoneInfo(self.zone))
        times = (time.timestamp() for time in CronSim(self.expression, start))
        return next(time for time in times if time > now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a job runs, and how the supervisor reacts to a failure."""

    finite: bool
    """The job's runs end by themselves."""
    times: CronTimes | None = None
    queue: bool = False
    """If a cron time comes during a run, one more run follows."""
    after: tuple[str, ...] = ()
    """The job starts when each of these jobs has finished."""
    initial_s: float = 5.0
    """The first back-off, in seconds."""
    max_s: float = 300.0
    """The longest back-off, in seconds, without jitter."""
    factor: float = 2.0
    """Each back-off is this many times the one before."""
    jitter: float = 0.2
    """The random part of a back-off, as a share of it."""
    reset_after_s: float = 600.0
    """After a run of this length, in seconds, the count of failures starts again."""
    attempts: int | None = None
    """Restarts in a row before the supervisor gives the job up; None: no limit."""
    stop_s: float = 80.0
    """The supervisor waits this long, in seconds, between SIGTERM and SIGKILL."""
    no_progress_s: float | None = None
    """The supervisor restarts a query that is silent for longer than this, in seconds."""

    def first_due(self, now: float) -> float | None:
        """Returns when the first run begins; None if it waits for the jobs in ``after``."""
        if self.times is not None:
            return self.next_time(now)
        return None if self.after else now

    def next_time(self, now: float) -> float:
        """Returns the next time of the cron expression, in seconds since 1970."""
        assert self.times is not None
        return self.times.next(now)

    def pause_s(self, failures: int, chance: float) -> float:
        """Returns the back-off after so many failures in a row, in seconds.

        ``chance`` is a random number from 0 to 1. It spreads restarts of jobs that failed together.
        """
        grown = self.initial_s * self.factor ** min(failures - 1, _EXPONENT_MAX)
        return min(self.max_s, grown) * (1 + self.jitter * chance)
