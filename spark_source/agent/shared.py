"""What an agent's tasks share: per query and broker one thread with one connection and session.

A ``LaneThread`` fetches as long as any task wants something of its broker and the budget allows.
Tasks put their ranges in and take arrivals out through an ``Inbox``, which is their ``Supply``. A
reply is handed out before anything else is done, because its ranges have moved already; the next
request leaves when every task has taken its part, so that it travels while they decode. A task that
doesn't come for its part is left out of the requests until it does.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from spark_source.agent import stats
from spark_source.agent.budget import Budget, Reservation
from spark_source.agent.channel import Gone
from spark_source.agent.fetcher import Fetcher
from spark_source.agent.lane import Arrival, Lane
from spark_source.agent.progress import Progress
from spark_source.errors import AgentError
from spark_source.model import Broker
from spark_source.options import SourceOptions

log = logging.getLogger(__name__)

# How long a thread sleeps at most before it looks whether it is still wanted.
_LOOK_S = 0.2
# How long a lane waits for a task to take its part of a reply before it goes on without that task.
# Leaving a task out costs two changes of the session per partition, so not for every hiccup.
_PATIENCE_S = 0.5


class Inbox:
    """A task's ranges in the lanes of its query, and what arrives for them.

    ``look`` is called now and then by ``next`` while nothing arrives: it tells whether the task's
    worker has gone.
    """

    def __init__(self, query: SharedQuery, look: Callable[[], bool]) -> None:
        self._query = query
        self._look = look
        self._arrived: queue.SimpleQueue[tuple[list[Arrival], Callable[[], None]]]
        self._arrived = queue.SimpleQueue()
        self._failed: AgentError | None = None
        self._closed = False
        self._lock = threading.Lock()

    def add(self, progress: Progress) -> None:
        """See Supply."""
        self._query.lane(progress.leader).add(progress, self)

    def drop(self, progress: Progress) -> None:
        """See Supply."""
        self._query.lane(progress.leader).drop(progress)

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
        _release(arrivals)
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
            _release(arrivals)
            taken()


def _release(arrivals: Sequence[Arrival]) -> None:
    for arrival in arrivals:
        arrival.release()


class LaneThread(threading.Thread):
    """The thread of one broker of one query."""

    def __init__(self, query: str, broker: Broker, options: SourceOptions, budget: Budget) -> None:
        super().__init__(name=f"{query[:8]} {broker.node_id}", daemon=True)
        self._broker = broker
        self._options = options
        self._budget = budget
        self._reservation: Reservation | None = None
        self._frame_bytes = 0
        self._past = stats.FetchStats()
        self._lane = self._new_lane()
        self._inboxes: dict[Progress, Inbox] = {}
        self._untaken: Counter[Inbox] = Counter()
        """Replies that lie in inboxes; a task that has one gets no other."""
        self._handed_at = 0.0
        self._parked: dict[Inbox, list[Progress]] = {}
        """Ranges that are not read until their task takes what it has."""
        self._orders: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closing = False

    def add(self, progress: Progress, inbox: Inbox) -> None:
        """Read a range for a task."""

        def order() -> None:
            self._inboxes[progress] = inbox
            if inbox in self._parked:
                self._parked[inbox].append(progress)
            else:
                self._lane.add(progress)

        self._order(order)

    def drop(self, progress: Progress) -> None:
        """Read a range no longer."""

        def order() -> None:
            inbox = self._inboxes.pop(progress, None)
            if inbox is None:
                return
            if progress in self._parked.get(inbox, []):
                self._parked[inbox].remove(progress)
            else:
                self._lane.drop(progress)

        self._order(order)

    def ask_to_close(self) -> None:
        """End the thread and the session, soon."""
        self._order(self._close)

    def close(self) -> None:
        """End the thread and the session; returns when both are gone, or after a second or two."""
        self.ask_to_close()
        self.join(timeout=2 + self._options.fetch.max_wait_ms / 1000)

    def stats(self) -> stats.FetchStats:
        """What the sessions have cost."""
        return self._past + self._lane.fetcher.stats()

    def describe(self) -> str:
        """One line for people."""
        return repr(self._lane.fetcher)

    def run(self) -> None:
        """Fetch until closed. Whatever goes wrong goes to the tasks, not into the void."""
        while not self._closing:
            try:
                self._turn()
            except Exception as cause:
                log.exception("%s", self.name)
                self._break_down(cause)
        self._budget.leave(self)
        self._unreserve()
        self._lane.fetcher.close()

    def _turn(self) -> None:
        """Obey; then take the reply in flight, or wait while nothing may be sent, or send."""
        self._obey()
        if self._closing:
            return
        if self._lane.in_flight:
            self._receive()
        elif (wait_s := self._wait_s()) > 0:
            self._budget.leave(self)
            self._wait_order(wait_s)
        else:
            self._send()

    def _wait_s(self) -> float:
        """For how long nothing is to be sent, unless an order changes that."""
        if self._lane.active and self._untaken.keys() - self._parked.keys():
            left_s = self._handed_at + _PATIENCE_S - time.monotonic()
            if left_s > 0:
                return left_s
            self._park()
        return self._lane.fetcher.pause_s() if self._lane.active else threading.TIMEOUT_MAX

    def _send(self) -> None:
        size = min(
            self._options.fetch.max_bytes,
            self._lane.partitions * self._options.fetch.partition_max_bytes,
        )
        self._reservation = self._budget.reserve(size, _LOOK_S, self)
        if self._reservation is None:
            return
        lost = self._lane.send(time.monotonic() + self._options.poll_timeout_s)
        if lost:
            self._unreserve()
            self._deliver(lost)

    def _receive(self) -> None:
        arrivals = self._lane.receive(time.monotonic() + self._options.poll_timeout_s)
        # Between here and the inboxes anything that raises would lose records: their ranges have
        # moved. Then _break_down fails those that have not got theirs.
        arrivals = self._charged(arrivals)
        try:
            self._deliver(arrivals)
        except BaseException:
            _release(arrivals)
            raise

    def _break_down(self, cause: Exception) -> None:
        """A bug: every task fails for good, and the next ones get a new session."""
        self._unreserve()
        for inbox in {*self._inboxes.values()}:
            inbox.fail(AgentError(f"the agent failed: {cause!r}"))
        self._inboxes.clear()
        self._parked.clear()
        broken, self._lane = self._lane, self._new_lane()
        self._past += broken.fetcher.stats()
        try:
            broken.fetcher.close()
        except Exception:
            log.exception("%s: closing a broken session", self.name)

    def _new_lane(self) -> Lane:
        fetch = self._options.fetch
        fetcher = Fetcher(self._broker, fetch, self._options.network, self._allocate)
        return Lane(fetcher, fetch.partition_max_bytes, self._options.skip_corrupt_batches)

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
            replace(a, release=reservation.holder()) if a.records is not None else a
            for a in arrivals
        ]

    def _deliver(self, arrivals: Sequence[Arrival]) -> None:
        by_inbox: dict[Inbox, list[Arrival]] = {}
        for arrival in arrivals:
            inbox = self._inboxes.get(arrival.progress)
            if inbox is None:  # dropped meanwhile
                arrival.release()
            else:
                by_inbox.setdefault(inbox, []).append(arrival)
        for inbox, part in by_inbox.items():
            if inbox.put(part, partial(self._order, partial(self._taken, inbox))):
                self._untaken[inbox] += 1
        self._handed_at = time.monotonic()
        for arrival in arrivals:
            if arrival.records is None or arrival.next_offset >= arrival.progress.end:
                self._inboxes.pop(arrival.progress, None)

    def _taken(self, inbox: Inbox) -> None:
        """A task has taken its part of a reply: it may have more."""
        self._untaken[inbox] -= 1
        if self._untaken[inbox] == 0:
            del self._untaken[inbox]
            for progress in self._parked.pop(inbox, []):
                self._lane.add(progress)

    def _park(self) -> None:
        """Read nothing more for tasks that don't come for what they have: others wait."""
        for inbox in self._untaken.keys() - self._parked.keys():
            mine = [progress for progress, whose in self._inboxes.items() if whose is inbox]
            self._parked[inbox] = mine
            for progress in mine:
                self._lane.drop(progress)

    def _order(self, order: Callable[[], None]) -> None:
        with self._changed:
            self._orders.append(order)
            self._changed.notify()

    def _wait_order(self, timeout_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._orders), timeout_s)

    def _obey(self) -> None:
        """Carry out what the tasks have ordered."""
        while self._orders:  # one by one: those behind an order that raises are not lost
            self._orders.popleft()()

    def _close(self) -> None:
        self._closing = True


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
        self._counted = stats.FetchStats()
        self._writing = threading.Lock()

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

    def count(self, records: int, batches_skipped: int = 0) -> None:
        """A task has read so many records more, and left out so many damaged batches."""
        more = stats.FetchStats(records=records, batches_skipped=batches_skipped)
        with self._lock:
            self._counted += more

    def leave(self) -> None:
        """A task has ended."""
        with self._lock:
            self._readers -= 1
            self._idle_since = time.monotonic()
        if self.options.stats_directory:
            # One after the other: older totals must not replace newer ones.
            with self._writing:
                stats.write(self.options.stats_directory, self.name, self.stats())

    def idle_s(self) -> float:
        """For how long no task has read."""
        with self._lock:
            return 0.0 if self._readers else time.monotonic() - self._idle_since

    def stats(self) -> stats.FetchStats:
        """What the query's sessions have cost here."""
        with self._lock:
            lanes, counted = list(self._lanes.values()), self._counted
        fetched = stats.total(lane.stats() for lane in lanes)
        return fetched + counted

    def describe(self) -> list[str]:
        """A line per broker."""
        with self._lock:
            return [lane.describe() for lane in self._lanes.values()]

    def close(self) -> None:
        """Close every session."""
        with self._lock:
            lanes = list(self._lanes.values())
            self._lanes.clear()
        for lane in lanes:  # all at once: each may wait for its reply in flight
            lane.ask_to_close()
        for lane in lanes:
            lane.close()
