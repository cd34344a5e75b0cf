"""How far each partition of a job was behind when its query last said so: partitions.json.

Written by the run, read by the page, which asks no broker. The figures are those of Spark's
progress (``kfetch.lag``): log ends as the last micro-batch's planning saw them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from kfetch.lag import Lag, PartitionLag
from kfetch.model import TopicPartition
from kfetch_jobs.util.files import write_json

__all__ = [
    "PARTITIONS_MAX",
    "PartitionLags",
    "TopicLag",
    "partitions_path",
    "read",
    "summarize",
    "write",
]

PARTITIONS_MAX = 20_000
"""Told of a job; of more, those that are furthest behind."""
_BYTES_MAX = 8 << 20

_One = tuple[int, TopicPartition, PartitionLag]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """The partitions of one topic, in three columns of one length."""

    source: int
    """Index of the source in the query: two may read the same topic."""
    topic: str
    partitions: tuple[int, ...]
    behind: tuple[int, ...]
    """Offsets."""
    waiting_s: tuple[float, ...]
    """For so long at least the next offset had been waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLags:
    """All topics of a job."""

    at: float
    """When the query said so: seconds since 1970."""
    topics: tuple[TopicLag, ...]
    left_out: int = 0
    """Partitions that are not told, being too many."""


def partitions_path(directory: Path) -> Path:
    """Where a job's directory has it."""
    return directory / "partitions.json"


def summarize(lags: Sequence[Lag], now: float) -> PartitionLags:
    """From the lags of a query's sources."""
    ones = [(lag.source, tp, one) for lag in lags for tp, one in lag.partitions.items()]
    kept = ones
    if len(ones) > PARTITIONS_MAX:
        kept = sorted(ones, key=lambda one: -one[2].offsets)[:PARTITIONS_MAX]
    kept = sorted(kept, key=lambda one: one[:2])
    topics = (
        _topic(source, topic, list(group))
        for (source, topic), group in groupby(kept, key=lambda one: (one[0], one[1].topic))
    )
    return PartitionLags(at=now, topics=tuple(topics), left_out=len(ones) - len(kept))


def _topic(source: int, topic: str, ones: list[_One]) -> TopicLag:
    return TopicLag(
        source=source,
        topic=topic,
        partitions=tuple(tp.partition for _, tp, _ in ones),
        behind=tuple(one.offsets for _, _, one in ones),
        waiting_s=tuple(round(one.at_least_s, 1) for _, _, one in ones),
    )


def write(path: Path, lags: Sequence[Lag], now: float) -> None:
    """Put it there, in place of what was there before."""
    write_json(path, asdict(summarize(lags, now)), indent=None)


def read(path: Path) -> PartitionLags | None:
    """What is there; None if there is nothing, or nothing that ``write`` has written."""
    try:
        with path.open("rb") as file:
            found: dict[str, Any] = json.loads(file.read(_BYTES_MAX))
        return PartitionLags(
            at=float(found["at"]),
            topics=tuple(_read_topic(topic) for topic in found["topics"]),
            left_out=int(found["left_out"]),
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None


def _read_topic(found: dict[str, Any]) -> TopicLag:
    topic = TopicLag(
        source=int(found["source"]),
        topic=str(found["topic"]),
        partitions=tuple(map(int, found["partitions"])),
        behind=tuple(map(int, found["behind"])),
        waiting_s=tuple(map(float, found["waiting_s"])),
    )
    if not all(map(math.isfinite, topic.waiting_s)):
        raise ValueError("numbers that JSON has")
    if not len(topic.partitions) == len(topic.behind) == len(topic.waiting_s):
        raise ValueError("columns of one length")
    return topic
