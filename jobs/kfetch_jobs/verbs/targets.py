"""Parses the target of a move from the command line: a time, a duration, a file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, NonNegativeInt, Strict, TypeAdapter, ValidationError

from kfetch.model import TopicPartition
from kfetch_jobs.config.field_types import Duration
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.offsets.target import MoveTarget, since


def of_time(text: str) -> MoveTarget:
    """Parse an ISO 8601 date or time. Without a zone, UTC counts.

    Raises ConfigError.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--to-datetime {text} is no time: write it as in 2026-11-21T18:30 or "
            "2026-11-21T18:30:00+01:00"
        ) from None
    return since(at.replace(tzinfo=at.tzinfo or UTC))


_SECONDS = TypeAdapter[float](Duration)


def of_duration(text: str, now_s: float) -> MoveTarget:
    """Parse a duration before ``now_s``, in seconds since 1970. Raises ConfigError."""
    try:
        seconds = _SECONDS.validate_python(text)
        return since(datetime.fromtimestamp(now_s - seconds, UTC))
    except (ValidationError, OverflowError, OSError, ValueError):
        raise ConfigError(
            f"--by-duration {text} is no duration: a number and a unit, as in 2h or 30 minutes"
        ) from None


_Offset = Annotated[NonNegativeInt, Strict()]


class _Row(BaseModel):
    topic: str
    partition: NonNegativeInt
    committed: _Offset | None
    """None for a new partition of an unfinished micro-batch."""


class _Source(BaseModel):
    topics: dict[str, UUID | None]
    partitions: list[_Row]


class _Shown(BaseModel):
    """The output of ``offsets show --json``, as far as it matters."""

    sources: list[_Source]


_Plain = dict[str, dict[NonNegativeInt, _Offset]]
_FILE: TypeAdapter[_Shown | _Plain] = TypeAdapter(_Shown | _Plain)


def of_file(path: Path) -> MoveTarget:
    """Read offsets from a file: output of ``offsets show --json``, or ``{"clicks": {"0": 12}}``.

    Raises ConfigError.
    """
    try:
        content = _FILE.validate_json(path.read_bytes())
    except OSError as cause:
        raise ConfigError(f"--from-file {path} can't be read: {cause.strerror}") from None
    except ValidationError as cause:
        raise ConfigError(
            f"--from-file {path} has no offsets ({cause.errors()[0]['msg']}): write the output of "
            'kfetch offsets show --json, or {"topic": {"0": 12}}'
        ) from None
    if isinstance(content, _Shown):
        ids = {name: id_ for one in content.sources for name, id_ in one.topics.items() if id_}
        rows = [
            (row.topic, row.partition, row.committed)
            for one in content.sources
            for row in one.partitions
            if row.committed is not None
        ]
    else:
        ids = {}
        rows = [
            (topic, number, at) for topic, parts in content.items() for number, at in parts.items()
        ]
    offsets = {TopicPartition(topic, number): at for topic, number, at in rows}
    return MoveTarget(f"the offsets of {path}", lambda at: offsets.get(at.tp), topic_ids=ids)
