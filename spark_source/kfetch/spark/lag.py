"""The lag of a query, from the progress that Spark reports. Pure.

Spark's progress has each source's end offset (the end of the micro-batch) and latest offset (the
log end at planning). Their difference is the lag in offsets. It is an upper bound of the records.

Progress holds no timestamps of records. So the lag in seconds follows from earlier progress: when
the log end was last at or below the query's position, and since when it is above. It is as precise
as the time between micro-batches. The module reads offsets of kfetch and of Spark's own Kafka
connector. It skips other sources.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kfetch.errors import CheckpointError
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, from_json

_SAMPLES_MAX = 64
"""The most samples per source. Beyond it, the sample with the closest neighbours is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of one partition."""

    offsets: int
    at_least_s: float = 0.0
    """The next offset has been waiting for at least this time."""
    at_most_s: float | None = 0.0
    """It has not waited longer than this. None if it waited before the first progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of one source of a query after a micro-batch, against the log end at its planning."""

    query: str
    """The query's name, or its id if it has no name."""
    source: int
    """The index of the source in the query."""
    timestamp: str
    """The timestamp of the progress: the start of the trigger, ISO 8601."""
    partitions: Mapping[TopicPartition, PartitionLag]

    @property
    def offsets(self) -> int:
        """The lag in offsets of all partitions together."""
        return sum(lag.offsets for lag in self.partitions.values())

    @property
    def at_least_s(self) -> float:
        """The lower bound in seconds for the partition that has waited longest."""
        return max((lag.at_least_s for lag in self.partitions.values()), default=0.0)

    @property
    def at_most_s(self) -> float | None:
        """The upper bound in seconds over all partitions. None if one is unknown."""
        bounds = [lag.at_most_s for lag in self.partitions.values()]
        known = [bound for bound in bounds if bound is not None]
        return max(known, default=0.0) if len(known) == len(bounds) else None

    def __str__(self) -> str:
        behind = {tp: lag.offsets for tp, lag in self.partitions.items() if lag.offsets}
        summary = f"{self.query}: {self.offsets} offsets behind"
        if not behind:
            return summary
        worst = max(behind, key=lambda tp: behind[tp])
        bound = "unknown" if self.at_most_s is None else f"{self.at_most_s:.1f} s"
        return (
            f"{summary} in {len(behind)} of {len(self.partitions)} partitions, most in {worst} "
            f"({behind[worst]}), for {self.at_least_s:.1f} s at least (at most: {bound})"
        )


@dataclass(frozen=True, slots=True)
class _Sample:
    """The log ends at the planning of a micro-batch."""

    at_s: float
    ends: dict[TopicPartition, int]


@dataclass(slots=True)
class LagHistory:
    """Computes the lag of queries, and remembers the log ends from which seconds follow."""

    has_own_ends: bool = True
    """Whether progress has the log ends of kfetch's sources. Without them, their lag is unknown."""
    _runs: dict[str, dict[int, list[_Sample]]] = field(default_factory=dict)
    """Samples by run id and source index, the oldest first."""

    def lags(self, progress: Mapping[str, Any]) -> list[Lag]:
        """Returns the lag of each Kafka source. ``progress`` is parsed JSON or PySpark's dict."""
        run = self._runs.setdefault(str(progress["runId"]), {})
        return [
            self._lag(progress, index, _ends(end), _ends(latest), run.setdefault(index, []))
            for index, end, latest in _sources(progress)
            if self.has_own_ends or end.by_connector
        ]

    def forget(self, run_id: str) -> None:
        """Drop the samples of a run that has ended."""
        self._runs.pop(run_id, None)

    def _lag(
        self,
        progress: Mapping[str, Any],
        index: int,
        position: Mapping[TopicPartition, int],
        latest: dict[TopicPartition, int],
        samples: list[_Sample],
    ) -> Lag:
        now_s = datetime.fromisoformat(progress["timestamp"]).timestamp()
        _add(samples, _Sample(now_s, latest))
        reached = {tp: _reached(tp, position[tp], samples) for tp in latest if tp in position}
        lag = Lag(
            query=str(progress.get("name") or progress["id"]),
            source=index,
            timestamp=progress["timestamp"],
            partitions={
                tp: _partition_lag(tp, position[tp], at, samples) for tp, at in reached.items()
            },
        )
        _drop(samples, max(0, min(reached.values(), default=0)))
        return lag


def _sources(progress: Mapping[str, Any]) -> Iterator[tuple[int, Offsets, Offsets]]:
    """Yields the index, end offset and latest offset of each Kafka source."""
    for index, source in enumerate(progress["sources"]):
        end, latest = _parsed(source.get("endOffset")), _parsed(source.get("latestOffset"))
        if end is not None and latest is not None:
            yield index, end, latest


def _parsed(offset: object) -> Offsets | None:
    """Returns the offsets, None if they are not Kafka's. PySpark's dict has them as text."""
    try:
        document = json.loads(offset) if isinstance(offset, str) else offset
        return from_json(document) if isinstance(document, Mapping) else None
    except (ValueError, CheckpointError):
        return None


def _ends(offsets: Offsets) -> dict[TopicPartition, int]:
    return {tp: position.offset for tp, position in offsets.positions.items()}


def _add(samples: list[_Sample], sample: _Sample) -> None:
    """Add a sample. A log that was cut, or is new or missing now, has no old ends."""
    if samples:
        last = samples[-1].ends
        for tp in [tp for tp, end in last.items() if sample.ends.get(tp, -1) < end]:
            for old in samples:
                old.ends.pop(tp, None)
    samples.append(sample)


def _drop(samples: list[_Sample], needed: int) -> None:
    """Drop the samples before the index ``needed``, and one beyond the limit."""
    del samples[:needed]
    if len(samples) > _SAMPLES_MAX:
        between = range(1, len(samples) - 1)
        del samples[min(between, key=lambda i: samples[i + 1].at_s - samples[i - 1].at_s)]


def _reached(tp: TopicPartition, position: int, samples: list[_Sample]) -> int:
    """Returns the index of the last sample whose log end the position has reached, or -1.

    Log ends only grow. Before a partition's first log end, there is a sample without it, or none.
    """
    if samples[-1].ends[tp] <= position:
        return len(samples) - 1
    return bisect_right(samples, position, key=lambda sample: sample.ends.get(tp, -1)) - 1


def _partition_lag(
    tp: TopicPartition, position: int, reached: int, samples: list[_Sample]
) -> PartitionLag:
    """Returns the lag, from the index of the last sample that the position has reached."""
    now = samples[-1]
    if now.ends[tp] <= position:
        return PartitionLag(offsets=0)
    is_known = reached >= 0 and tp in samples[reached].ends
    return PartitionLag(
        offsets=now.ends[tp] - position,
        at_least_s=now.at_s - samples[reached + 1].at_s,
        at_most_s=now.at_s - samples[reached].at_s if is_known else None,
    )
