"""Counts of micro-batches that Spark does not know, from the query's thread to the listener's.

The query's thread writes dead letters and files before Spark commits the batch. The listener's
thread gets Spark's report of the batch later. If a batch is repeated after a crash, the run that
commits it counts it.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_BATCHES_MAX = 10_000
"""Limit of counts for a slow listener. Spark's queue of events has the same limit."""


class Letters(NamedTuple):
    """The dead letters of one micro-batch."""

    records: int = 0
    example: str = ""
    """The place of one of them, and why it can't be decoded."""


class BatchCounts:
    """Counts by the number of the batch. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._letters: dict[int, Letters] = {}
        self._rows: dict[int, int] = {}
        self.reads = 1
        """How often Spark reads each record."""

    def put(self, batch: int, letters: Letters) -> None:
        """Set the dead letters of a batch. A repeated batch replaces its count."""
        self._put(self._letters, batch, letters)

    def put_rows(self, batch: int, rows: int) -> None:
        """Set the records of a batch whose tasks write files: Spark counts the files."""
        self._put(self._rows, batch, rows)

    def _put(self, counts: dict[int, T], batch: int, count: T) -> None:
        with self._lock:
            counts[batch] = count
            if len(counts) > _BATCHES_MAX:
                del counts[next(iter(counts))]

    def take(self, batch: int) -> Letters:
        """Removes and returns the dead letters of a committed batch. Drops earlier counts."""
        return self._take(self._letters, batch, Letters())

    def take_rows(self, batch: int, spark: int) -> int:
        """Removes and returns the records of a committed batch. Drops earlier counts.

        ``spark``: Spark's count of what it has read.
        """
        return self._take(self._rows, batch, spark // self.reads)

    def _take(self, counts: dict[int, T], batch: int, default: T) -> T:
        with self._lock:
            count = counts.get(batch, default)
            for other in [other for other in counts if other <= batch]:
                del counts[other]
            return count
