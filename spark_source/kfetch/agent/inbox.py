"""A task's inbox: its ArrivalSource, which the SharedBrokers of its ranges fill."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from kfetch.agent.budget import Budget
from kfetch.agent.channel import ChannelClosed
from kfetch.agent.decoding_memory import DecodingMemory
from kfetch.errors import KfetchError
from kfetch.fetch.arrivals import Arrival, release
from kfetch.fetch.progress import RangeProgress
from kfetch.model import Broker
from kfetch.records import Memory

# While a task waits for arrivals, it checks its worker at this interval.
_WORKER_CHECK_S = 0.2


class RangeReader(Protocol):
    """The part of a SharedBroker that an inbox uses."""

    def add(self, ranges: Sequence[RangeProgress], inbox: Inbox) -> bool:
        """Read ranges for a task. Returns False if the reader has retired."""

    def drop(self, progress: RangeProgress) -> None:
        """Stop reading a range."""

    def requested_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""


class Inbox:
    """A task's ArrivalSource.

    ``reader_of`` returns a broker's reader, and a new one if it has retired. ``budget`` says how
    large a batch may be. While nothing arrives, ``next`` calls ``worker_has_closed`` at intervals,
    and ``fetch`` with its deadline. ``fetch`` returns for how many seconds it has nothing to do.
    """

    def __init__(
        self,
        reader_of: Callable[[Broker], RangeReader],
        budget: Budget,
        worker_has_closed: Callable[[], bool],
        fetch: Callable[[float], float] = lambda _: threading.TIMEOUT_MAX,
    ) -> None:
        self._reader_of = reader_of
        self._budget = budget
        self._worker_has_closed = worker_has_closed
        self._fetch = fetch
        self._readers: dict[RangeProgress, RangeReader] = {}
        """The reader that got each range. The range may have left it since."""
        self._deliveries: queue.SimpleQueue[tuple[list[Arrival], Callable[[], object]]]
        self._deliveries = queue.SimpleQueue()
        self._failure: KfetchError | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._memory = DecodingMemory(budget, self._check_worker)

    def add(self, ranges: Sequence[RangeProgress]) -> None:
        """See ArrivalSource."""
        by_broker: dict[Broker, list[RangeProgress]] = {}
        for progress in ranges:
            by_broker.setdefault(progress.broker, []).append(progress)
        for broker, of_broker in by_broker.items():
            reader = self._reader_of(broker)
            while not reader.add(of_broker, self):
                reader = self._reader_of(broker)
            self._readers.update(dict.fromkeys(of_broker, reader))

    def drop(self, progress: RangeProgress) -> None:
        """See ArrivalSource."""
        if reader := self._readers.pop(progress, None):
            reader.drop(progress)

    def requested_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""
        reader = self._readers.get(progress)
        return reader.requested_since(progress) if reader else progress.requested_at

    @property
    def batch_bytes(self) -> int:
        """See ArrivalSource."""
        return self._budget.batch_bytes

    def decoding(self) -> AbstractContextManager[Memory]:
        """See ArrivalSource."""
        return self._memory

    def next(self, until: float, deadline: float) -> Sequence[Arrival]:
        """Wait for one reply's arrivals until ``until`` and return them; there may be none.

        Raises ChannelClosed if the worker has closed its channel, and AgentError after ``fail``.
        """
        while self._failure is None:
            pause_s = self._fetch(deadline) if self._deliveries.empty() else 0.0
            left_s = until - time.monotonic()
            timeout_s = max(0.0, min(left_s, pause_s, _WORKER_CHECK_S))
            try:
                arrivals, on_received = self._deliveries.get(timeout=timeout_s)
            except queue.Empty:
                self._check_worker()
                if left_s <= 0:
                    return []
            else:
                on_received()
                return arrivals
        raise self._failure

    def _check_worker(self) -> None:
        if self._worker_has_closed():
            raise ChannelClosed("the worker has closed its channel") from None

    def deliver(self, arrivals: list[Arrival], on_received: Callable[[], object]) -> bool:
        """Put arrivals into the inbox. If it is closed, release their memory and return False.

        The inbox calls ``on_received`` when the task receives the arrivals, or when it closes.
        """
        with self._lock:
            if not self._closed:
                self._deliveries.put((arrivals, on_received))
                return True
        release(arrivals)
        return False

    def fail(self, error: KfetchError) -> None:
        """Fail the task for good: its ranges have moved behind records that it will not get."""
        self._failure = error
        self._deliveries.put(([], lambda: None))  # wakes the task up

    def close(self) -> None:
        """Release the memory of arrivals that the task has not received, and accept no more."""
        with self._lock:
            self._closed = True
        while not self._deliveries.empty():
            arrivals, on_received = self._deliveries.get()
            release(arrivals)
            on_received()
