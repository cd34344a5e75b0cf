"""When a job runs, and when its micro-batches start.

trigger: availableNow                 one run: all that is in Kafka now, then the end
trigger: continuous                   for ever, each micro-batch right after the other
trigger: {processingTime: 10s}        for ever, a micro-batch every 10 seconds
trigger: {cron: "0 * * * *", timezone: Europe/Berlin}   a run as availableNow at those times
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator

from kfetch_jobs.config.values import Cron, SparkDuration, TimeZone

__all__ = ["Trigger"]

_KINDS = ("processingTime", "availableNow", "continuous", "cron")


class Trigger(BaseModel):
    """Exactly one of the four kinds."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    processingTime: SparkDuration | None = None
    """A micro-batch so often, for ever."""
    availableNow: Literal[True] | None = None
    """All that is there now, then the end; ``trigger: availableNow`` in short."""
    continuous: Literal[True] | None = None
    """Micro-batches as fast as they go; not Spark's experimental continuous processing."""
    cron: Cron | None = None
    """Minute, hour, day, month, weekday: then a run as with availableNow."""
    timezone: TimeZone | None = None
    """Of the cron expression; UTC if there is none."""
    overlap: Literal["skip", "queue"] | None = None
    """What becomes of a time at which the run before still goes: nothing, or one run after it."""

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
        """Whether its runs end by themselves."""
        return self.availableNow is not None or self.cron is not None

    def arguments(self) -> dict[str, Any]:
        """What ``DataStreamWriter.trigger`` gets."""
        if self.finite:
            return {"availableNow": True}
        return {"processingTime": self.processingTime or "0 seconds"}

    def __str__(self) -> str:
        if self.cron:
            return f"{self.cron} ({self.timezone or 'UTC'})"
        if self.processingTime:
            return f"every {self.processingTime}"
        return "availableNow" if self.availableNow else "continuous"
