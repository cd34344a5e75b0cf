"""How far a query is behind, from the progress that Spark reports; pure.

Spark's progress has each source's end offset (where the micro-batch ends) and latest offset (where
the log ended when it was planned). Their difference is the lag in offsets, an upper bound of the
records. Progress holds no timestamps of records, so the lag in seconds is what the progress of the
earlier micro-batches proves: when was the log's end last seen at or below the query's position,
and since when is it seen above? It is as fine as the micro-batches. kfetch's offsets are
understood, and those of Spark's own Kafka connector; sources of other kinds are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kfetch.errors import CheckpointError
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, from_json

_SAMPLES_MAX = 64
"""Log ends remembered per source; of more, the one with the closest neighbours is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far one partition is behind its log end."""

    offsets: int
    at_least_s: float = 0.0
    """For so long the next offset has been waiting, provably."""
    at_most_s: float | None = 0.0
    """It has not waited longer than this; None if it waited before the first progress was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far one source of a query was behind when a micro-batch was planned, after that batch."""

    query: str
    """Its name, or its id if it has none."""
    source: int
    """Index of the source in the query."""
    timestamp: str
    """The progress's own: the start of the trigger, ISO 8601."""
    partitions: Mapping[TopicPartition, PartitionLag]

    @property
    def offsets(self) -> int:
        """Of all partitions together."""
        return sum(lag.offsets for lag in self.partitions.values())

    @property
    def at_least_s(self) -> float:
        """Of the partition that has been waiting longest."""
        return max((lag.at_least_s for lag in self.partitions.values()), default=0.0)

    @property
    def at_most_s(self) -> float | None:
        """Of the partition that may have been waiting longest; None if that is unknown."""
        bounds = [lag.at_most_s for lag in self.partitions.values()]
        known = [bound for bound in bounds if bound is not None]
        return max(known, default=0.0) if len(known) == len(bounds) else None

    def __str__(self) -> str:
        behind = {tp: lag.offsets for tp, lag in self.partitions.items() if lag.offsets}
        told = f"{self.query}: {self.offsets} offsets behind"
        if not behind:
            return told
        worst = max(behind, key=lambda tp: behind[tp])
        bound = "unknown" if self.at_most_s is None else f"{self.at_most_s:.1f} s"
        return (
            f"{told} in {len(behind)} of {len(self.partitions)} partitions, most in {worst} "
            f"({behind[worst]}), for {self.at_least_s:.1f} s at least (at most: {bound})"
        )


@dataclass(frozen=True, slots=True)
class _Sample:
    """Log ends as a micro-batch's planning saw them."""

    at_s: float
    ends: Mapping[TopicPartition, int]


@dataclass(slots=True)
class LagHistory:
    """Turns the progress of queries into lag, and remembers what seconds need."""

    _runs: dict[str, dict[int, list[_Sample]]] = field(default_factory=dict)
    """Samples by run id and source, the oldest first."""

    def lags(self, progress: Mapping[str, Any]) -> list[Lag]:
        """The lag of each Kafka source of a progress: JSON parsed, or PySpark's own dict."""
        run = self._runs.setdefault(str(progress["runId"]), {})
        return [
            self._lag(progress, index, _ends(end), _ends(latest), run.setdefault(index, []))
            for index, end, latest in _sources(progress)
        ]

    def forget(self, run_id: str) -> None:
        """A run of a query has ended."""
        self._runs.pop(run_id, None)

    def _lag(
        self,
        progress: Mapping[str, Any],
        index: int,
        position: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int],
        samples: list[_Sample],
    ) -> Lag:
        now_s = datetime.fromisoformat(progress["timestamp"]).timestamp()
        _remember(samples, _Sample(now_s, latest), position)
        return Lag(
            query=str(progress.get("name") or progress["id"]),
            source=index,
            timestamp=progress["timestamp"],
            partitions={
                tp: _partition_lag(tp, position[tp], end, samples)
                for tp, end in latest.items()
                if tp in position
            },
        )


def lags(progress: Mapping[str, Any]) -> list[Lag]:
    """The lag in offsets of each Kafka source of one progress, without a history for seconds."""
    return LagHistory().lags(progress)


def _sources(progress: Mapping[str, Any]) -> Iterator[tuple[int, Offsets, Offsets]]:
    """Index, end and latest offset of the sources whose offsets are Kafka's."""
    for index, source in enumerate(progress["sources"]):
        end, latest = _parsed(source.get("endOffset")), _parsed(source.get("latestOffset"))
        if end is not None and latest is not None:
            yield index, end, latest


def _parsed(offset: object) -> Offsets | None:
    """Progress as JSON has offsets as objects, PySpark's dict has them as text."""
    try:
        document = json.loads(offset) if isinstance(offset, str) else offset
        return from_json(document) if isinstance(document, Mapping) else None
    except (ValueError, CheckpointError):
        return None


def _ends(offsets: Offsets) -> dict[TopicPartition, int]:
    return {tp: position.offset for tp, position in offsets.positions.items()}


def _remember(
    samples: list[_Sample], sample: _Sample, position: Mapping[TopicPartition, int]
) -> None:
    """Add a sample; give up those that no position can need any more, or that are too many."""
    samples.append(sample)
    reached = [
        i
        for i, old in enumerate(samples)
        if all(tp in old.ends and old.ends[tp] <= offset for tp, offset in position.items())
    ]
    if reached:
        del samples[: reached[-1]]
    if len(samples) > _SAMPLES_MAX:
        between = range(1, len(samples) - 1)
        del samples[min(between, key=lambda i: samples[i + 1].at_s - samples[i - 1].at_s)]


def _partition_lag(
    tp: TopicPartition, position: int, end: int, samples: list[_Sample]
) -> PartitionLag:
    """Go back to the newest sample whose log end the position has reached."""
    now_s = since_s = samples[-1].at_s
    if end <= position:
        return PartitionLag(offsets=0)
    for sample in reversed(samples):
        if sample.ends.get(tp, position + 1) <= position:
            at_most_s = now_s - sample.at_s
            return PartitionLag(
                offsets=end - position, at_least_s=now_s - since_s, at_most_s=at_most_s
            )
        if tp in sample.ends:
            since_s = sample.at_s
    return PartitionLag(offsets=end - position, at_least_s=now_s - since_s, at_most_s=None)
