"""One committed micro-batch, and its line in ``progress.jsonl``: pure.

A line may also say that a replay has deleted the rows of micro-batches. Readers that do not know it
skip it.

Offsets are totals over all partitions, for curves and tables. The checkpoint has the positions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Any

_UNDONE = "undone_from"
_RESTORED = "restored"
_NUMBERS = ("batch", "finished", "rows", "seconds", "end", "latest", "lag_s", "dead_letters",
            "late_rows", "run_batches", "run_rows")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch that was committed."""

    batch: int
    started: str
    """When the batch's trigger began: ISO 8601, UTC."""
    finished: float
    """When Spark reported the batch: seconds since 1970."""
    rows: int
    seconds: float
    end: int
    """The sum of all partitions' next offsets after this batch."""
    latest: int
    """The sum of all partitions' log ends, as the source last saw them."""
    lag_s: float = 0.0
    """The next offset had waited at least this long when the batch was planned, in seconds."""
    dead_letters: int = 0
    """Rows that could not be decoded and went to the dead letters. ``rows`` includes them."""
    dead_letter: str = ""
    """The place of one of them, and why it could not be decoded."""
    late_rows: int = 0
    """Rows that came later than a watermark allows, and that Spark dropped.

    An aggregate combines rows of a key first, and they count as one.
    """
    run_batches: int = 0
    """The micro-batches of the same run up to this one."""
    run_rows: int = 0
    """Their rows."""
    phases: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Seconds by Spark's name of the phase."""

    @property
    def lag(self) -> int:
        """Offsets that are in Kafka and not read yet."""
        return max(0, self.latest - self.end)


_FIELDS = frozenset(one.name for one in fields(Batch))


def line_of(batch: Batch) -> str:
    """Returns the line for a batch, with its end."""
    values = asdict(batch) | {"lag": batch.lag}
    # A supervisor of an older kfetch does not know some keys. Without them it can go on reading
    # this file before it is restarted.
    absent = {name for name in ("dead_letters", "dead_letter", "late_rows") if not values[name]}
    return json.dumps({name: values[name] for name in values if name not in absent}) + "\n"


def batches_of_line(line: str) -> Iterator[Batch]:
    """Yields the batch of a line; nothing for a truncated or damaged line."""
    with suppress(ValueError, TypeError, KeyError):
        if (batch := parse_line(line)) is not None:
            yield batch


def undone_line(first: int, move: int) -> str:
    """Returns the line that says: the rows of the micro-batches from ``first`` on were deleted.

    ``move`` is the number of the replay's own micro-batch.
    """
    return json.dumps({_UNDONE: first, "move": move}) + "\n"


def restored_line(move: int) -> str:
    """Returns the line that says: a replay was undone, and its tables have their rows again."""
    return json.dumps({_RESTORED: move}) + "\n"


def undone_from(line: str) -> tuple[int, int] | None:
    """Returns the first micro-batch whose rows were deleted, and the replay's micro-batch.

    Returns None if the line does not say. Lines of older versions do not name the replay: -1.
    """
    with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
        values = json.loads(line)
        return int(values[_UNDONE]), int(values.get("move", -1))
    return None


def restored_move(line: str) -> int | None:
    """Returns the micro-batch of the replay that was undone; None if the line does not say."""
    with suppress(ValueError, TypeError, KeyError, OverflowError):
        return int(json.loads(line)[_RESTORED])
    return None


def parse_line(line: str) -> Batch | None:
    """Returns the batch of a line with its end; None if it is truncated or stands for an undo.

    Raises ValueError, TypeError or KeyError for a line that ``line_of`` has not made.
    """
    if not line.endswith("}\n"):
        return None
    values: dict[str, Any] = json.loads(line)
    if _UNDONE in values or _RESTORED in values:
        return None
    values.pop("lag")
    # A later kfetch may write more keys.
    batch = Batch(**{name: value for name, value in values.items() if name in _FIELDS})
    _check_numbers(batch)
    return batch


def _check_numbers(batch: Batch) -> None:
    """Raises ValueError for an infinity or a text: callers add these numbers up."""
    numbers = [getattr(batch, name) for name in _NUMBERS] + list(dict(batch.phases).values())
    try:
        finite = all(map(math.isfinite, numbers))
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(f"micro-batch {batch.batch} has a number that cannot be")
