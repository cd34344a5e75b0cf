"""Counts the dead letters of each micro-batch, from the query's thread to the listener's.

The query's thread writes the dead letters before Spark commits the batch. The listener's thread
gets Spark's report of the batch later. If a batch is repeated after a crash, the run that commits
it counts it.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

_BATCHES_MAX = 10_000
"""Limit of counts for a slow listener. Spark's queue of events has the same limit."""


class Letters(NamedTuple):
    """The dead letters of one micro-batch."""

    records: int = 0
    example: str = ""
    """The place of one of them, and why it can't be decoded."""


class DeadLetterCounts:
    """Counts of dead letters by the number of the batch. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[int, Letters] = {}
        self.reads = 1
        """How often Spark reads each record."""

    def put(self, batch: int, letters: Letters) -> None:
        """Set the count of a batch. A repeated batch replaces its count."""
        with self._lock:
            self._counts[batch] = letters
            if len(self._counts) > _BATCHES_MAX:
                del self._counts[next(iter(self._counts))]

    def take(self, batch: int) -> Letters:
        """Removes and returns the count of a committed batch. Drops those of earlier batches."""
        with self._lock:
            letters = self._counts.get(batch, Letters())
            self._counts = {other: n for other, n in self._counts.items() if other > batch}
            return letters
