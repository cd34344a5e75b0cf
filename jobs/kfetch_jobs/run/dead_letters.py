"""How many records of each micro-batch went to the dead letters.

The thread of the query writes them before the batch is committed; the listener's thread hears of
the batch later. A batch that comes again after a crash is counted by the run that commits it.
"""

from __future__ import annotations

import threading

__all__ = ["DeadLetterCounts"]

_BATCHES_MAX = 10_000
"""Kept for a listener that is behind: Spark's queue of what it has to tell holds as many."""


class DeadLetterCounts:
    """Counts by the batch's number, from one thread to another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[int, int] = {}

    def put(self, batch: int, records: int) -> None:
        """A batch's count; the last word counts."""
        with self._lock:
            self._counts[batch] = records
            if len(self._counts) > _BATCHES_MAX:
                del self._counts[next(iter(self._counts))]

    def take(self, batch: int) -> int:
        """A committed batch's count, once. Those before it are forgotten: nobody tells of them."""
        with self._lock:
            found = self._counts.get(batch, 0)
            self._counts = {other: n for other, n in self._counts.items() if other > batch}
            return found
