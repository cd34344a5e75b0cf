"""Parses the target of a move from the command line: a time, a duration, a file."""

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


def of_time(text: str) -> Timed:
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
    return Timed(at.replace(tzinfo=at.tzinfo or UTC))


_SECONDS = TypeAdapter[float](Duration)


def of_duration(text: str, now_s: float) -> Timed:
    """Parse a duration before ``now_s``, in seconds since 1970. Raises ConfigError."""
    try:
        seconds = _SECONDS.validate_python(text)
        return Timed(datetime.fromtimestamp(now_s - seconds, UTC))
    except (ValidationError, OverflowError, OSError, ValueError):
        raise ConfigError(
            f"--by-duration {text} is no duration: a number and a unit, as in 2h or 30 minutes"
        ) from None


def of_file(path: Path) -> OffsetsFromFile:
    """Read offsets from a file: output of ``offsets show --json``, or ``{"clicks": {"0": 12}}``.

    Raises ConfigError.
    """
    try:
        content = json.loads(path.read_text())
        return _offsets(path, _from_show if "sources" in content else _plain, content)
    except OSError as cause:
        raise ConfigError(f"--from-file {path} can't be read: {cause.strerror}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise ConfigError(
            f"--from-file {path} has no offsets ({type(problem).__name__}: {problem}): write the "
            'output of kfetch offsets show --json, or {"topic": {"0": 12}}'
        ) from None


def _offsets(
    path: Path, read: Callable[[Any], Mapping[TopicPartition, Any]], content: Any
) -> OffsetsFromFile:
    offsets = read(content)
    for tp, offset in offsets.items():
        if type(offset) is not int or offset < 0 or tp.partition < 0:
            raise ValueError(f"{offset!r} of {tp} is no offset")
    sources = content.get("sources", ()) if isinstance(content.get("sources"), list) else ()
    ids = {
        name: UUID(hex=id_) for source in sources for name, id_ in source["topics"].items() if id_
    }
    return OffsetsFromFile(name=str(path), offsets=offsets, topic_ids=ids)


def _from_show(content: Any) -> Mapping[TopicPartition, Any]:
    return {
        TopicPartition(row["topic"], row["partition"]): row["committed"]
        for source in content["sources"]
        for row in source["partitions"]
    }


def _plain(content: Any) -> Mapping[TopicPartition, Any]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in content.items()
        for partition, offset in partitions.items()
    }
