"""The rules for the state machine, from a job's file."""

from __future__ import annotations

from kfetch_jobs.config.models import JobFile
from kfetch_jobs.supervise.rules import CronTimes, Rules

_MARGIN_S = 20.0
"""Spark and its JVM need up to this long to end, after the micro-batch."""


def rules_of(file: JobFile) -> Rules:
    """Returns the rules that a job's file states."""
    trigger, restart = file.trigger, file.restart
    return Rules(
        finite=trigger.finite,
        times=CronTimes(trigger.cron, trigger.timezone or "UTC") if trigger.cron else None,
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
