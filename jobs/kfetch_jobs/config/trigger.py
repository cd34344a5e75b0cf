"""When a job runs, and when its micro-batches start.

trigger: availableNow                 one run: reads all that is in Kafka now, then ends
trigger: continuous                   runs for ever, one micro-batch right after the other
trigger: {processingTime: 10s}        runs for ever, with a micro-batch every 10 seconds
trigger: {cron: "0 * * * *", timezone: Europe/Berlin}   runs as availableNow at these times
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from zoneinfo import ZoneInfo

from cronsim import CronSim
from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator

from kfetch_jobs.config.field_types import Chosen, Cron, SparkDuration, TimeZone

_KINDS = ("processingTime", "availableNow", "continuous", "cron")


class Trigger(BaseModel):
    """Exactly one of the four kinds."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    processingTime: SparkDuration | None = None
    """The job runs for ever, with a micro-batch at this interval."""
    availableNow: Chosen | None = None
    """The job reads all that is in Kafka now, then ends. Short: ``trigger: availableNow``."""
    continuous: Chosen | None = None
    """The job runs for ever, without pauses. This is not Spark's continuous processing."""
    cron: Cron | None = None
    """Minute, hour, day, month, weekday. At each time a run starts, as with availableNow."""
    timezone: TimeZone | None = None
    """The time zone of the cron expression. The default is UTC."""
    overlap: Literal["skip", "queue"] | None = None
    """If a run still goes at a cron time: skip the time, or queue one run after it."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {value: True} if value in ("availableNow", "continuous") else value

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in _KINDS) != 1:
            raise ValueError(
                "must be availableNow, continuous, processingTime with a duration, or cron"
            )
        if self.cron is None and (self.timezone or self.overlap):
            raise ValueError("timezone and overlap belong to cron")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> Any:
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"enum": ["availableNow", "continuous"]}, schema]}

    @property
    def finite(self) -> bool:
        """Whether the job's runs end by themselves."""
        return self.availableNow is not None or self.cron is not None

    def next_time(self, now: float) -> float:
        """Returns the first time of ``cron`` after ``now``; both in seconds since 1970.

        The times are those of Debian's cron. If a change of the clocks leaves out a daily time, the
        time comes right after the change. If a time comes twice, it counts once.

        cronsim goes on by whole hours. Where clocks change by half an hour, on Lord Howe Island, it
        may leave out times of the day of the change. In an hour that comes twice, it may count from
        its first occurrence: it drops ``fold``.
        """
        start = datetime.fromtimestamp(now, ZoneInfo(self.timezone or "UTC"))
        times = (time.timestamp() for time in CronSim(str(self.cron), start))
        return next(time for time in times if time > now)

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of ``DataStreamWriter.trigger``."""
        if self.finite:
            return {"availableNow": True}
        return {"processingTime": self.processingTime or "0 seconds"}

    def __str__(self) -> str:
        if self.cron:
            return f"{self.cron} ({self.timezone or 'UTC'})"
        if self.processingTime:
            return f"every {self.processingTime}"
        return "availableNow" if self.availableNow else "continuous"
