"""The lag of each partition of a job, at the query's last report: values. Pure.

The page shows them and asks no broker. The figures come from Spark's progress
(``kfetch.spark.lag``), with the log ends at the planning of the last micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pydantic import FiniteFloat

from kfetch.admin.query import Lag, PartitionLag
from kfetch.model import TopicPartition

PARTITIONS_MAX = 20_000
"""Limit of partitions in the file. It keeps those that are furthest behind."""

_PartitionEntry = tuple[int, TopicPartition, PartitionLag]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """The partitions of one topic, as three columns of the same length."""

    source: int
    """Index of the source in the query: two sources may read the same topic."""
    topic: str
    partitions: tuple[int, ...]
    behind: tuple[int, ...]
    """Offsets behind the log end."""
    waiting_s: tuple[FiniteFloat, ...]
    """The next offset had waited at least this long, in seconds."""

    def __post_init__(self) -> None:
        """Raises ValueError for columns of different lengths: a file may be damaged."""
        if not len(self.partitions) == len(self.behind) == len(self.waiting_s):
            raise ValueError("the columns have different lengths")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLags:
    """The lags of all topics of a job."""

    at: float
    """When the query reported them: seconds since 1970."""
    topics: tuple[TopicLag, ...]
    left_out: int = 0
    """The number of partitions beyond the limit."""


def summarize(lags: Sequence[Lag], now: float) -> PartitionLags:
    """Returns the report of the lags of a query's sources.

    ``now`` is in seconds since 1970.
    """
    entries = [(lag.source, tp, one) for lag in lags for tp, one in lag.partitions.items()]
    listed = entries
    if len(entries) > PARTITIONS_MAX:
        listed = sorted(entries, key=lambda entry: -entry[2].offsets)[:PARTITIONS_MAX]
    listed = sorted(listed, key=lambda entry: entry[:2])
    topics = (
        _topic(source, topic, list(group))
        for (source, topic), group in groupby(listed, key=lambda entry: (entry[0], entry[1].topic))
    )
    return PartitionLags(at=now, topics=tuple(topics), left_out=len(entries) - len(listed))


def _topic(source: int, topic: str, entries: list[_PartitionEntry]) -> TopicLag:
    return TopicLag(
        source=source,
        topic=topic,
        partitions=tuple(tp.partition for _, tp, _ in entries),
        behind=tuple(one.offsets for _, _, one in entries),
        waiting_s=tuple(round(one.at_least_s, 1) for _, _, one in entries),
    )
