"""The types of the keys in project files: text for Spark and Kafka, durations, cron times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from kfetch.storage.locations import DEFAULTS, NO_KEYS, has_keys, location_mistake
from kfetch_jobs.config.mistakes import HIDDEN
from kfetch_jobs.config.yamlfile import suggestion

Text = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]
"""Spark and Kafka take options as text. Editors may take some of the texts for numbers."""


def _distinct(options: dict[str, str]) -> dict[str, str]:
    first: dict[str, str] = {}
    for name in options:
        if (other := first.setdefault(name.lower(), name)) != name:
            raise ValueError(f"{name} stands here a second time, as {other}")
    return options


Options = Annotated[dict[str, Text], AfterValidator(_distinct)]
"""Their names have no case."""


def _spark_settings(settings: dict[str, str]) -> dict[str, str]:
    for name in settings:
        if not name.startswith("spark."):
            raise ValueError(f"{name} is no Spark setting: they start with spark.")
        if name in DEFAULTS and has_keys(settings[name]):
            raise ValueError(f"{name}: {NO_KEYS}")
    return settings


SparkSettings = Annotated[dict[str, Text], AfterValidator(_spark_settings)]

DURATION_PATTERN = r"^\d+\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)$"
_DURATION = re.compile(r"(?P<count>\d+)\s*(?P<unit>[a-z]+)")
_NAMES = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECONDS = {
    "milliseconds": 0.001,
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
    "days": 86400.0,
}
_DURATION_SCHEMA = WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN})


def _parsed(text: Any) -> tuple[int, str]:
    text = str(text).strip()
    match = _DURATION.fullmatch(text)
    if match is None or not re.match(DURATION_PATTERN, text):
        raise ValueError("must be a number and a unit, as in 10 seconds, 500ms or 2m")
    unit = _NAMES.get(match["unit"], match["unit"])
    return int(match["count"]), unit if unit.endswith("s") else f"{unit}s"


def _spark_duration(text: Any) -> str:
    count, unit = _parsed(text)
    return f"{count} {unit}"


def _seconds(value: Any) -> float:
    if isinstance(value, float):  # a default in models.py
        return value
    count, unit = _parsed(value)
    if not count:
        raise ValueError("must be longer than nothing")
    return count * _SECONDS[unit]


def _truth(value: Any) -> Any:
    return True if str(value).lower() in ("true", "yes", "on") else value


Chosen = Annotated[Literal[True], BeforeValidator(_truth)]
"""``true``, or another of YAML's words for it."""
SparkDuration = Annotated[str, BeforeValidator(_spark_duration), _DURATION_SCHEMA]
"""As Spark writes it: ``10 seconds``."""
Duration = Annotated[float, BeforeValidator(_seconds), _DURATION_SCHEMA]
"""In seconds; written with a unit."""


def _cron(expression: str) -> str:
    try:
        times = CronSim(expression, datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as cause:
        raise ValueError(
            f"not a cron expression ({str(cause).lower()}): minute, hour, day, month and weekday, "
            'as in "0 * * * *" for each full hour'
        ) from None
    if next(times, None) is None:
        raise ValueError("this moment never comes")
    return expression


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        near = suggestion(name, available_timezones())
        hint = near if near.startswith("did") else "as in UTC or Europe/Berlin"
        raise ValueError(f"no time zone: {hint}") from None
    return name


def _location(text: str) -> str:
    if has_keys(text):
        raise PydanticCustomError(HIDDEN, NO_KEYS)
    if sentence := location_mistake(text):
        raise ValueError(sentence)
    return text


Location = Annotated[str, AfterValidator(_location)]
"""A path or URI."""
Cron = Annotated[str, AfterValidator(_cron)]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
