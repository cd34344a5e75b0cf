"""A job's progress, one line of JSON per micro-batch in ``progress.jsonl``: written and read.

Offsets are told as totals over all partitions: what a curve or a table wants. The positions
themselves are in the checkpoint. The file is bounded: what is older than some ten thousand
micro-batches is given up.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from kfetch.admin.values import parse_offsets

__all__ = [
    "Batch",
    "append",
    "file_of",
    "from_spark",
    "last",
    "parsed",
    "put_aside",
    "read",
    "whole",
]

_BYTES_MAX = 4 << 20
"""Of the file and of the one before it, each."""

_LINES_BYTES = 4096
"""Some lines: each has less than 500 bytes."""

_NUMBERS = ("batch", "finished", "rows", "seconds", "end", "latest", "lag_s", "dead_letters")


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
    lag_s: float = 0.0
    """For so long at least the next offset had been waiting when the batch was planned."""
    dead_letters: int = 0
    """Of the rows, those that could not be decoded and are in the dead letters."""
    phases: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Seconds by Spark's name of the phase."""

    @property
    def lag(self) -> int:
        """Offsets that are in Kafka and not read."""
        return max(0, self.latest - self.end)


_FIELDS = frozenset(found.name for found in fields(Batch))


def from_spark(
    progress: Mapping[str, Any], now: float, lag_s: float = 0.0, dead_letters: int = 0
) -> Batch:
    """From the JSON of Spark's StreamingQueryProgress."""
    ends = [_total(source.get("endOffset")) for source in progress["sources"]]
    latest = [_total(source.get("latestOffset")) for source in progress["sources"]]
    return Batch(
        batch=progress["batchId"],
        started=progress["timestamp"],
        finished=now,
        rows=progress["numInputRows"],
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        end=sum(ends),
        latest=sum(map(max, ends, latest)),
        lag_s=round(lag_s, 3),
        dead_letters=dead_letters,
        phases={
            name: ms / 1000
            for name, ms in progress["durationMs"].items()
            if name != "triggerExecution"
        },
    )


def _total(offset: Any) -> int:
    """Spark gives an offset as an object, or as text with one in it; None before the first."""
    document = json.loads(offset) if isinstance(offset, str) else offset
    if not document:
        return 0
    return sum(position.offset for position in parse_offsets(document).positions.values())


def file_of(directory: Path) -> Path:
    """Where a job's directory has it."""
    return directory / "progress.jsonl"


def append(path: Path, batch: Batch) -> None:
    """Add a line. One write: whoever reads along sees whole lines, or an unfinished last one."""
    with path.open("a") as file:
        # What a killed writer left unfinished must not swallow this line.
        start = "" if _ends_a_line(path) else "\n"
        file.write(start + _line(batch))
        full = file.tell() > _BYTES_MAX
    if full:
        os.replace(path, put_aside(path))


def _line(batch: Batch) -> str:
    told = asdict(batch) | {"lag": batch.lag}
    if not batch.dead_letters:
        # A supervisor from before an update knows no such key: only who has dead letters waits
        # for its restart.
        del told["dead_letters"]
    return json.dumps(told) + "\n"


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")


def put_aside(path: Path) -> Path:
    """Where a progress file goes when it is full."""
    return path.with_suffix(f".1{path.suffix}")


def read(path: Path) -> list[Batch]:
    """All batches that are kept; lines that are cut off (a killed writer's) or damaged are not."""
    return [
        batch for file in (put_aside(path), path) for line in _lines(file) for batch in whole(line)
    ]


def last(path: Path) -> Batch | None:
    """The last micro-batch that was noted; reads the end of the file alone."""
    for file in (path, put_aside(path)):
        for line in reversed(_end(file).splitlines(keepends=True)):
            for batch in whole(line):
                return batch
    return None


def whole(line: str) -> Iterator[Batch]:
    """A line as its batch; none if it is cut off or damaged."""
    with suppress(ValueError, TypeError, KeyError):
        if (batch := parsed(line)) is not None:
            yield batch


def _end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LINES_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return []


def parsed(line: str) -> Batch | None:
    """A line, with its end, as its batch; None if it is cut off. Raises ValueError, TypeError or
    KeyError for what this has not written."""
    if not line.endswith("}\n"):
        return None
    told: dict[str, Any] = json.loads(line)
    told.pop("lag")
    # What a later kfetch tells besides is nothing that this one could show.
    batch = Batch(**{name: value for name, value in told.items() if name in _FIELDS})
    _check(batch)
    return batch


def _check(batch: Batch) -> None:
    """What is read here is added up elsewhere: infinities and texts would be, too."""
    values = [getattr(batch, name) for name in _NUMBERS] + list(dict(batch.phases).values())
    try:
        sound = all(map(math.isfinite, values))
    except OverflowError:
        sound = False
    if not sound:
        raise ValueError(f"micro-batch {batch.batch} has a number that cannot be")
