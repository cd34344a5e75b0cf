"""The memory of one broker's replies: reserved before a request leaves, shared by its arrivals."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from kfetch.agent.budget import Budget, Reservation
from kfetch.fetch.arrivals import Arrival, RecordsArrived
from kfetch.fetch.totals import Totals
from kfetch.wire.frames import Allocate

log = logging.getLogger(__name__)

# How long a request waits for memory before its broker runs what tasks have asked for meanwhile.
_WAIT_S = 0.2


class ReplyMemory:
    """The memory of a broker's next reply. ``totals`` has the time that requests wait for it."""

    def __init__(self, budget: Budget, allocate: Allocate, totals: Totals) -> None:
        self._budget = budget
        self._allocate = allocate
        self._totals = totals
        self._reservation: Reservation | None = None
        self._waiting_since: float | None = None
        self._came_at = 0.0
        self._reply_bytes = 0

    def reserve(self, size: int) -> bool:
        """Reserve memory for the next reply. Returns False if it does not come for a moment."""
        self._reservation = self._budget.reserve(size, _WAIT_S, self)
        now = time.monotonic()
        if self._reservation is None:
            # The first attempt has already waited.
            self._waiting_since = self._waiting_since or now - _WAIT_S
        elif self._waiting_since is not None:
            waited_s, self._waiting_since = now - self._waiting_since, None
            self._came_at = now
            self._totals.add(starved_s=waited_s)
            log.debug("waited %.2f s for memory", waited_s)
        return self._reservation is not None

    def stop_waiting(self) -> None:
        """Let others have the memory, because no request is to leave."""
        self._budget.leave_queue(self)
        self._waiting_since = None

    @property
    def requested_since(self) -> float:
        """Monotonic time at which the last wait for memory ended: now, while one lasts."""
        return self._came_at if self._waiting_since is None else time.monotonic()

    def allocate(self, size: int) -> memoryview:
        """Returns memory for one reply. It lives until the last task has decoded its records."""
        self._reply_bytes = size
        return self._allocate(size)

    def share(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Shrink the reservation to the reply's size, and let all arrivals with records share it.

        Returns the arrivals, each with its release.
        """
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            return list(arrivals)
        holders = sum(isinstance(arrival, RecordsArrived) for arrival in arrivals)
        releases = iter(reservation.share(self._reply_bytes, holders))
        return [
            replace(a, release=next(releases)) if isinstance(a, RecordsArrived) else a
            for a in arrivals
        ]

    def release(self) -> None:
        """Give the memory back, because no reply comes."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.release()
