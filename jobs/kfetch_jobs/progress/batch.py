"""One committed micro-batch, and its line in ``progress.jsonl``: pure.

A line may also say that a replay has deleted the rows of micro-batches. An older kfetch skips it.

Offsets are totals over all partitions, for curves and tables. The checkpoint has the positions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Annotated

from pydantic import Field, FiniteFloat, TypeAdapter

Count = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
"""A damaged line may have a number that is too large to be added up as a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch that was committed."""

    batch: Count
    started: str
    """When the batch's trigger began: ISO 8601, UTC."""
    finished: FiniteFloat
    """When Spark reported the batch: seconds since 1970."""
    rows: Count
    """Records that it has read. A table may have fewer or more rows of them."""
    seconds: FiniteFloat
    end: Count
    """The sum of all partitions' next offsets after this batch."""
    latest: Count
    """The sum of all partitions' log ends, as the source last saw them."""
    lag_s: FiniteFloat = 0.0
    """The next offset had waited at least this long when the batch was planned, in seconds."""
    dead_letters: Count = 0
    """Records that could not be decoded and went to the dead letters. ``rows`` includes them."""
    dead_letter: str = ""
    """The place of one of them, and why it could not be decoded."""
    late_rows: Count = 0
    """Rows that came later than a watermark allows, and that Spark dropped.

    An aggregate combines rows of a key first, and they count as one.
    """
    run_batches: Count = 0
    """The micro-batches of the same run up to this one."""
    run_rows: Count = 0
    """The rows of these micro-batches."""
    phases: Mapping[str, FiniteFloat] = field(default_factory=dict, hash=False)
    """Seconds by Spark's name of the phase."""

    @property
    def lag(self) -> int:
        """Offsets that are in Kafka and not read yet."""
        return max(0, self.latest - self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsDeleted:
    """A replay has deleted the rows of micro-batches."""

    undone_from: Count
    """The first of these micro-batches."""
    move: Count = -1
    """The number of the replay's own micro-batch; -1 in lines of older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRestored:
    """A replay was undone, and its tables have their rows again."""

    restored: Count
    """The number of the replay's own micro-batch."""


HistoryEntry = Batch | RowsDeleted | RowsRestored
"""The content of one line."""
_ENTRY: TypeAdapter[HistoryEntry] = TypeAdapter(
    Annotated[HistoryEntry, Field(union_mode="left_to_right")]
)
"""It ignores keys that a later kfetch writes."""


def line_of(entry: HistoryEntry) -> str:
    """Returns the line for an entry, with its end."""
    values = asdict(entry)
    if isinstance(entry, Batch):
        values["lag"] = entry.lag
        # An older kfetch can't read lines with these keys. Without them, its supervisor can still
        # read this file before it is restarted.
        omitted = {
            name for name in ("dead_letters", "dead_letter", "late_rows") if not values[name]
        }
        values = {name: values[name] for name in values if name not in omitted}
    return json.dumps(values) + "\n"


def parse_line(line: str) -> HistoryEntry | None:
    """Returns the entry of a line with its end; None if it is truncated.

    Raises ValueError for a line that ``line_of`` did not write.
    """
    return _ENTRY.validate_json(line) if line.endswith("}\n") else None


def readable_entries(lines: Iterable[str]) -> Iterator[HistoryEntry]:
    """Yields the entries of lines, without those of truncated or damaged lines."""
    for line in lines:
        with suppress(ValueError):
            if entry := parse_line(line):
                yield entry


def batches_among(lines: Iterable[str]) -> Iterator[Batch]:
    """Yields the micro-batches among the readable entries of lines."""
    return (entry for entry in readable_entries(lines) if isinstance(entry, Batch))
