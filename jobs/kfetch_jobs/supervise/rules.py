"""A job's file as the state machine sees it, and times of cron expressions: pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from kfetch_jobs.config.models import JobFile

__all__ = ["Rules", "Times", "rules_of"]

_MARGIN_S = 20.0
"""Beside the micro-batch's own time: for Spark and its JVM to end."""
_EXPONENT_MAX = 64
"""Far beyond every pause; a larger one would overflow."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a cron expression. As in Debian's cron, a daily time that a change of the clocks
    leaves out comes right after it, and one that comes twice counts once."""

    expression: str
    zone: str

    def next(self, now: float) -> float:
        """The first time after ``now``: seconds since 1970."""
        start = datetime.fromtimestamp(now, ZoneInfo(self.zone))
        return next(CronSim(self.expression, start)).timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a job runs, and what follows a failure."""

    finite: bool
    """Its runs end by themselves."""
    times: Times | None = None
    queue: bool = False
    """A time that comes while it runs is kept for one run after it."""
    after: tuple[str, ...] = ()
    initial_s: float = 5.0
    max_s: float = 300.0
    factor: float = 2.0
    jitter: float = 0.2
    reset_after_s: float = 600.0
    attempts: int | None = None
    """restarts in a row; None: no limit"""
    stop_s: float = 80.0
    """SIGKILL follows SIGTERM after this."""
    no_progress_s: float | None = None

    def first_due(self, now: float) -> float | None:
        """When the first run begins; None: when the jobs before it have finished."""
        if self.times is not None:
            return self.next_time(now)
        return None if self.after else now

    def next_time(self, now: float) -> float:
        """The next time of the cron expression."""
        assert self.times is not None
        return self.times.next(now)

    def pause_s(self, failures: int, chance: float) -> float:
        """Between a failure and the next attempt: longer with each failure in a row, up to a limit,
        and by chance, so that jobs that failed together don't come back together."""
        grown = self.initial_s * self.factor ** min(failures - 1, _EXPONENT_MAX)
        return min(self.max_s, grown) * (1 + self.jitter * chance)


def rules_of(file: JobFile) -> Rules:
    """From a job's file."""
    trigger, restart = file.trigger, file.restart
    return Rules(
        finite=trigger.finite,
        times=Times(trigger.cron, trigger.timezone or "UTC") if trigger.cron else None,
        queue=trigger.overlap == "queue",
        after=tuple(file.after),
        initial_s=restart.initial,
        max_s=restart.max,
        factor=restart.factor,
        jitter=restart.jitter,
        reset_after_s=restart.resetAfter,
        attempts=restart.attempts,
        stop_s=file.stopWithin + _MARGIN_S,
        no_progress_s=file.health.noProgress,
    )
