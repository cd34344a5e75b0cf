"""What an agent's tasks share: per query and broker one thread with one connection and session.

A ``LaneThread`` fetches as long as any task wants something of its broker and the budget allows.
The next request leaves before a reply is handed out, so it is never behind decoding. Tasks put
their ranges in and take arrivals out through an ``Inbox``, which is their ``Supply``.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from spark_source.agent import stats
from spark_source.agent.budget import Budget, Reservation
from spark_source.agent.channel import Gone
from spark_source.agent.fetcher import Fetcher
from spark_source.agent.lane import Arrival, Lane
from spark_source.agent.progress import Progress
from spark_source.errors import KfetchError
from spark_source.model import Broker
from spark_source.options import SourceOptions

log = logging.getLogger(__name__)

# How long a thread sleeps at most before it looks whether it is still wanted.
_LOOK_S = 0.2


class Inbox:
    """A task's ranges in the lanes of its query, and what arrives for them."""

    def __init__(self, query: SharedQuery, gone: Callable[[], bool]) -> None:
        self._query = query
        self._gone = gone
        self._arrived: queue.SimpleQueue[list[Arrival]] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()

    def add(self, progress: Progress) -> None:
        """See Supply."""
        self._query.lane(progress.leader).add(progress, self)

    def drop(self, progress: Progress) -> None:
        """See Supply."""
        self._query.lane(progress.leader).drop(progress)

    def next(self, until: float, deadline: float) -> Sequence[Arrival]:
        """One reply's arrivals; none at ``until``. Raises Gone if the worker is."""
        while True:
            left_s = until - time.monotonic()
            try:
                return self._arrived.get(timeout=max(0.0, min(left_s, _LOOK_S)))
            except queue.Empty:
                if self._gone():
                    raise Gone("the worker has gone") from None
                if left_s <= 0:
                    return []

    def put(self, arrivals: list[Arrival]) -> None:
        """Hand arrivals to the task, or give their memory back if it is gone."""
        with self._lock:
            if not self._closed:
                self._arrived.put(arrivals)
                return
        _release(arrivals)

    def close(self) -> None:
        """Take nothing any more."""
        with self._lock:
            self._closed = True
        while not self._arrived.empty():
            _release(self._arrived.get())


def _release(arrivals: Sequence[Arrival]) -> None:
    for arrival in arrivals:
        arrival.release()


class LaneThread(threading.Thread):
    """The thread of one broker of one query."""

    def __init__(self, query: str, broker: Broker, options: SourceOptions, budget: Budget) -> None:
        super().__init__(name=f"{query[:8]} {broker.node_id}", daemon=True)
        self._options = options
        self._budget = budget
        self._reservation: Reservation | None = None
        self._frame_bytes = 0
        fetcher = Fetcher(broker, options.fetch, options.network, self._allocate)
        self._lane = Lane(fetcher, options.fetch.partition_max_bytes)
        self._inboxes: dict[Progress, Inbox] = {}
        self._orders: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closing = False

    def add(self, progress: Progress, inbox: Inbox) -> None:
        """Read a range for a task."""

        def order() -> None:
            self._inboxes[progress] = inbox
            self._lane.add(progress)

        self._order(order)

    def drop(self, progress: Progress) -> None:
        """Read a range no longer."""

        def order() -> None:
            if self._inboxes.pop(progress, None) is not None:
                self._lane.drop(progress)

        self._order(order)

    def close(self) -> None:
        """End the thread and the session; returns when both are gone, or after a second or two."""
        self._order(self._close)
        self.join(timeout=2 + self._options.fetch.max_wait_ms / 1000)

    def stats(self) -> stats.FetchStats:
        """What the session has cost."""
        return self._lane.fetcher.stats()

    def describe(self) -> str:
        """One line for people."""
        return repr(self._lane.fetcher)

    def run(self) -> None:
        """Fetch until closed. Whatever goes wrong goes to the tasks, not into the void."""
        while not self._closing:
            try:
                self._obey(wait=not self._lane.active)
                self._turn()
            except Exception as cause:
                log.exception("%s", self.name)
                self._unreserve()
                self._deliver(self._lane.fail(KfetchError(f"the agent failed: {cause!r}")))
        self._lane.fetcher.close()

    def _turn(self) -> None:
        """Send if nothing is in flight, else take the reply, and send again before handing out."""
        if not self._lane.active and not self._lane.in_flight:
            return
        if not self._lane.in_flight:
            self._deliver(self._send(_LOOK_S))
            return
        arrivals = self._lane.receive(time.monotonic() + self._options.poll_timeout_s)
        arrivals = self._charged(arrivals)
        self._obey(wait=False)
        self._deliver([*arrivals, *self._send(0)])

    def _send(self, timeout_s: float) -> list[Arrival]:
        if not self._lane.active:
            return []
        size = min(
            self._options.fetch.max_bytes,
            self._lane.partitions * self._options.fetch.partition_max_bytes,
        )
        self._reservation = self._budget.reserve(size, timeout_s)
        if self._reservation is None:
            return []
        lost = self._lane.send(time.monotonic() + self._options.poll_timeout_s)
        if lost:
            self._unreserve()
        return lost

    def _unreserve(self) -> None:
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.release()

    def _allocate(self, size: int) -> memoryview:
        """Memory of a reply's own: it lives until the last task has decoded its part."""
        self._frame_bytes = size
        return memoryview(bytearray(size))

    def _charged(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """The reply's reservation, shrunk to its size and shared by those who decode it."""
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            return list(arrivals)
        holders = sum(arrival.records is not None for arrival in arrivals)
        reservation.resize(self._frame_bytes if holders else 0)
        reservation.share(holders)
        return [
            replace(a, release=_once(reservation)) if a.records is not None else a for a in arrivals
        ]

    def _deliver(self, arrivals: Sequence[Arrival]) -> None:
        by_inbox: dict[Inbox, list[Arrival]] = {}
        for arrival in arrivals:
            inbox = self._inboxes.get(arrival.progress)
            if inbox is None:  # dropped meanwhile
                arrival.release()
                continue
            by_inbox.setdefault(inbox, []).append(arrival)
            if arrival.records is None or arrival.next_offset >= arrival.progress.end:
                del self._inboxes[arrival.progress]
        for inbox, part in by_inbox.items():
            inbox.put(part)

    def _order(self, order: Callable[[], None]) -> None:
        with self._changed:
            self._orders.append(order)
            self._changed.notify()

    def _obey(self, *, wait: bool) -> None:
        """Carry out what the tasks have ordered."""
        with self._changed:
            if wait and not self._lane.in_flight:
                self._changed.wait_for(lambda: bool(self._orders))
            orders = [*self._orders]
            self._orders.clear()
        for order in orders:
            order()

    def _close(self) -> None:
        self._closing = True


def _once(reservation: Reservation) -> Callable[[], None]:
    """A release that counts once, however often it is called."""
    left = [reservation]

    def release() -> None:
        if left:
            left.pop().release()

    return release


class SharedQuery:
    """The lanes of one query on this executor."""

    def __init__(self, name: str, options: SourceOptions, budget: Budget) -> None:
        self.name = name
        self.options = options
        self._budget = budget
        self._lanes: dict[Broker, LaneThread] = {}
        self._lock = threading.Lock()
        self._readers = 0
        self._idle_since = time.monotonic()
        self._records = 0

    def lane(self, broker: Broker) -> LaneThread:
        """The broker's thread, started when first needed."""
        with self._lock:
            if broker not in self._lanes:
                lane = LaneThread(self.name, broker, self.options, self._budget)
                self._lanes[broker] = lane
                lane.start()
            return self._lanes[broker]

    def enter(self) -> None:
        """A task begins to read."""
        with self._lock:
            self._readers += 1

    def leave(self, records: int) -> None:
        """A task has ended, having read so many records."""
        with self._lock:
            self._readers -= 1
            self._records += records
            self._idle_since = time.monotonic()
        if self.options.stats_directory:
            stats.write(self.options.stats_directory, self.name, self.stats())

    def idle_s(self) -> float:
        """For how long no task has read."""
        with self._lock:
            return 0.0 if self._readers else time.monotonic() - self._idle_since

    def stats(self) -> stats.FetchStats:
        """What the query's sessions have cost here."""
        with self._lock:
            lanes = list(self._lanes.values())
        fetched = stats.total(lane.stats() for lane in lanes)
        return fetched + stats.FetchStats(records=self._records)

    def describe(self) -> list[str]:
        """A line per broker."""
        with self._lock:
            return [lane.describe() for lane in self._lanes.values()]

    def close(self) -> None:
        """Close every session."""
        with self._lock:
            lanes = list(self._lanes.values())
            self._lanes.clear()
        for lane in lanes:
            lane.close()
