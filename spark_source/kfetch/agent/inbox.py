"""A task's ranges in the lanes of its query, and what arrives for them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from kfetch.agent.budget import Budget
from kfetch.agent.channel import Gone
from kfetch.errors import AgentError
from kfetch.fetch.broker_reader import Arrival
from kfetch.fetch.progress import RangeProgress
from kfetch.model import Broker

# How long a task sleeps at most before it looks whether its worker is still there.
_LOOK_S = 0.2


class ReaderOfOne(Protocol):
    """What an inbox asks of the thread of one broker."""

    def add(self, ranges: Sequence[RangeProgress], inbox: Inbox) -> None:
        """Read ranges for a task."""

    def drop(self, progress: RangeProgress) -> None:
        """Read a range no longer."""

    def asked_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""


class Inbox:
    """A task's supply of arrivals.

    ``lane`` gives a broker's thread, ``budget`` the size of batches. ``look`` is called now and
    then by ``next`` while nothing arrives: it tells whether the task's worker has gone.
    """

    def __init__(
        self, lane: Callable[[Broker], ReaderOfOne], budget: Budget, look: Callable[[], bool]
    ) -> None:
        self._lane = lane
        self._budget = budget
        self._look = look
        self._arrived: queue.SimpleQueue[tuple[list[Arrival], Callable[[], None]]]
        self._arrived = queue.SimpleQueue()
        self._failed: AgentError | None = None
        self._closed = False
        self._lock = threading.Lock()

    def add(self, ranges: Sequence[RangeProgress]) -> None:
        """See ArrivalSource."""
        by_leader: dict[Broker, list[RangeProgress]] = {}
        for progress in ranges:
            by_leader.setdefault(progress.leader, []).append(progress)
        for leader, led in by_leader.items():
            self._lane(leader).add(led, self)

    def drop(self, progress: RangeProgress) -> None:
        """See ArrivalSource."""
        self._lane(progress.leader).drop(progress)

    def asked_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""
        return self._lane(progress.leader).asked_since(progress)

    @property
    def batch_bytes(self) -> int:
        """See ArrivalSource."""
        return self._budget.batch_bytes

    def decoding(self) -> AbstractContextManager[None]:
        """See ArrivalSource."""
        return self._budget.decoding()

    def next(self, until: float, deadline: float) -> Sequence[Arrival]:
        """One reply's arrivals; none at ``until``. Raises Gone if the worker is, and AgentError."""
        while self._failed is None:
            left_s = until - time.monotonic()
            try:
                arrivals, taken = self._arrived.get(timeout=max(0.0, min(left_s, _LOOK_S)))
            except queue.Empty:
                if self._look():
                    raise Gone("the worker has gone") from None
                if left_s <= 0:
                    return []
            else:
                taken()
                return arrivals
        raise self._failed

    def put(self, arrivals: list[Arrival], taken: Callable[[], None]) -> bool:
        """Hand arrivals to the task; False, and their memory is given back, if it is gone.

        ``taken`` is called when the task takes them, or closes.
        """
        with self._lock:
            if not self._closed:
                self._arrived.put((arrivals, taken))
                return True
        release(arrivals)
        return False

    def fail(self, error: AgentError) -> None:
        """Let the task fail for good: ranges have moved past records that it will not get."""
        self._failed = error
        self._arrived.put(([], lambda: None))  # wakes it up

    def close(self) -> None:
        """Take nothing any more."""
        with self._lock:
            self._closed = True
        while not self._arrived.empty():
            arrivals, taken = self._arrived.get()
            release(arrivals)
            taken()


def release(arrivals: Sequence[Arrival]) -> None:
    """Give the memory of arrivals back that nobody will decode."""
    for arrival in arrivals:
        arrival.release()
