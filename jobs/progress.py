"""A job's progress, one line of JSON per micro-batch in ``progress.jsonl``: written and read.

Offsets are told as totals over all partitions: what a curve or a table wants. The positions
themselves are in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spark_source.offsets import from_json

__all__ = ["Batch", "append", "from_spark", "read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch that was committed."""

    batch: int
    started: str
    """When the batch's trigger began: ISO 8601, UTC."""
    finished: float
    """When its progress arrived: seconds since 1970."""
    rows: int
    seconds: float
    end: int
    """The sum of all partitions' next offsets after this batch."""
    latest: int
    """The sum of all partitions' log ends, as last seen by the source."""

    @property
    def lag(self) -> int:
        """Offsets that are in Kafka and not read."""
        return max(0, self.latest - self.end)


def from_spark(progress: Mapping[str, Any], now: float) -> Batch:
    """From the JSON of Spark's StreamingQueryProgress."""
    source = progress["sources"][0]
    end = _total(source.get("endOffset"))
    return Batch(
        batch=progress["batchId"],
        started=progress["timestamp"],
        finished=now,
        rows=progress["numInputRows"],
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        end=end,
        latest=max(end, _total(source.get("latestOffset"))),
    )


def _total(offset: Any) -> int:
    """Spark gives an offset as an object, or as text with one in it; None before the first."""
    document = json.loads(offset) if isinstance(offset, str) else offset
    if not document:
        return 0
    return sum(position.offset for position in from_json(document).positions.values())


def append(path: Path, batch: Batch) -> None:
    """Add a line. One write: whoever reads along sees whole lines, or an unfinished last one."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(batch) | {"lag": batch.lag}) + "\n")


def read(path: Path) -> list[Batch]:
    """All batches so far; a last line that is cut off (a killed writer) is left out."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [_batch(json.loads(line)) for line in lines if line.endswith("\n")]


def _batch(line: dict[str, Any]) -> Batch:
    line.pop("lag")
    return Batch(**line)
