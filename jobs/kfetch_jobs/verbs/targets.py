"""Where a job is to go on, as it is said at the command line: a time, a duration, a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from kfetch.model import TopicPartition
from kfetch_jobs.config.values import Duration
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.offsets.target import OffsetsFromFile, Timed

__all__ = ["of_duration", "of_file", "of_time"]


def of_time(text: str) -> Timed:
    """A date or time as ISO 8601 writes it; without a zone it is this machine's."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--to-datetime {text} is no time: write it as in 2026-11-21T18:30 or "
            "2026-11-21T18:30:00+01:00"
        ) from None
    return Timed(at.astimezone())


_SECONDS = TypeAdapter[float](Duration)


def of_duration(text: str, now_s: float) -> Timed:
    """A duration before now."""
    try:
        seconds = _SECONDS.validate_python(text)
        return Timed(datetime.fromtimestamp(now_s - seconds, UTC).astimezone())
    except (ValidationError, OverflowError, OSError, ValueError):
        raise ConfigError(
            f"--by-duration {text} is no duration: a number and a unit, as in 2h or 30 minutes"
        ) from None


def of_file(path: Path) -> OffsetsFromFile:
    """The offsets of a file: what ``offsets show --json`` prints, or ``{"clicks": {"0": 12}}``."""
    try:
        told = json.loads(path.read_text())
        return _given(path, _shown if "sources" in told else _plain, told)
    except OSError as cause:
        raise ConfigError(f"--from-file {path} can't be read: {cause.strerror}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise ConfigError(
            f"--from-file {path} has no offsets ({type(problem).__name__}: {problem}): write what "
            'kfetch offsets show --json prints, or {"topic": {"0": 12}}'
        ) from None


def _given(
    path: Path, read: Callable[[Any], Mapping[TopicPartition, Any]], told: Any
) -> OffsetsFromFile:
    offsets = read(told)
    for tp, offset in offsets.items():
        if type(offset) is not int or offset < 0 or tp.partition < 0:
            raise ValueError(f"{offset!r} of {tp} is no offset")
    sources = told.get("sources", ()) if isinstance(told.get("sources"), list) else ()
    ids = {name: UUID(hex=id_) for each in sources for name, id_ in each["topics"].items() if id_}
    return OffsetsFromFile(name=str(path), offsets=offsets, topic_ids=ids)


def _shown(told: Any) -> Mapping[TopicPartition, Any]:
    return {
        TopicPartition(each["topic"], each["partition"]): each["committed"]
        for source in told["sources"]
        for each in source["partitions"]
    }


def _plain(told: Any) -> Mapping[TopicPartition, Any]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in told.items()
        for partition, offset in partitions.items()
    }
