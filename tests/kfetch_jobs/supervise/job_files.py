"""Job files for tests of the state machine."""

from __future__ import annotations

from typing import Any

from kfetch_jobs.config import JobFile
from kfetch_jobs.config.trigger import Trigger


def job_file(trigger: object, **keys: Any) -> JobFile:
    """Returns a job's file that reads a topic. ``trigger`` and ``keys``: as in the file."""
    source, sink = {"cluster": "local", "subscribe": "clicks"}, {"path": "clicks"}
    return JobFile.model_validate({"source": source, "sink": sink, "trigger": trigger, **keys})


def cron(expression: str, zone: str) -> Trigger:
    """Returns the trigger of a cron expression in a time zone."""
    return Trigger(cron=expression, timezone=zone)
