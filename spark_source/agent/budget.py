"""The agent's memory: raw replies and decoded batches together, under one limit.

A fetch reserves what its reply may take; a full budget sends no request, and the session stays as
it is. A reply that is larger than the whole budget passes alone.
"""

from __future__ import annotations

import threading
from types import TracebackType


class Budget:
    """Bytes in use out of ``limit``. Any thread may use it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._peak = 0
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._used

    @property
    def peak(self) -> int:
        """Most bytes that were ever in use."""
        return self._peak

    @property
    def limit(self) -> int:
        """Bytes that may be in use."""
        return self._limit

    def raise_limit(self, limit: int) -> None:
        """Allow at least so much: the largest wish of all queries counts."""
        with self._changed:
            self._limit = max(self._limit, limit)
            self._changed.notify_all()

    def reserve(self, size: int, timeout_s: float) -> Reservation | None:
        """Take ``size`` bytes if they are free, or if nothing else is in use; None if not so
        within the time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._fits(size), timeout_s):
                return None
            return self._take(size)

    def charge(self, size: int) -> Reservation:
        """Take ``size`` bytes, whatever is free: for memory that is bounded in another way."""
        with self._changed:
            return self._take(size)

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._limit

    def _take(self, size: int) -> Reservation:
        self._used += size
        self._peak = max(self._peak, self._used)
        return Reservation(self, size)

    def _give(self, size: int) -> None:
        with self._changed:
            self._used -= size
            self._changed.notify_all()


class Reservation:
    """Bytes taken from a budget, given back once. Shared by as many as ``share`` says."""

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget = budget
        self._size = size
        self._shares = 1
        self._lock = threading.Lock()

    def resize(self, size: int) -> None:
        """The memory turned out to be another size: less of it as a rule."""
        self._budget._give(self._size - size)
        self._size = size

    def share(self, count: int) -> None:
        """Give the memory back after so many releases; at once for none."""
        with self._lock:
            self._shares = count
        if count == 0:
            self._return()

    def release(self) -> None:
        """One of those who share it is done."""
        with self._lock:
            self._shares -= 1
            last = self._shares == 0
        if last:
            self._return()

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def _return(self) -> None:
        self._budget._give(self._size)
        self._size = 0
