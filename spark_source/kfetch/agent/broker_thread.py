"""The thread of one broker of one query: it fetches for every task that reads there.

It goes on as long as any task wants something of its broker and the budget allows. A reply is
handed out before anything else is done, because its ranges have moved already; the next request
leaves when every task has taken its part, so that it travels while they decode. A task that doesn't
come for its part is left out of the requests until it does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from kfetch.agent.budget import Budget, Reservation
from kfetch.agent.inbox import Inbox, release
from kfetch.agent.leftovers import Leftovers
from kfetch.errors import AgentError
from kfetch.fetch import events
from kfetch.fetch.broker_reader import Arrival, BrokerReader
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.stats import FetchStats, SessionStatus
from kfetch.model import Broker
from kfetch.options import SourceOptions

log = logging.getLogger(__name__)

# How long the thread waits for memory before it looks whether it is still wanted.
_LOOK_S = 0.2
# How long a lane waits for a task to take its part of a reply before it goes on without that task.
# Leaving a task out costs two changes of the session per partition, so not for every hiccup.
_PATIENCE_S = 0.5


class BrokerThread(threading.Thread):
    """The thread of one broker of one query."""

    def __init__(
        self,
        query: str,
        broker: Broker,
        options: SourceOptions,
        budget: Budget,
        sink: events.Sink = events.story,
    ) -> None:
        super().__init__(name=f"{query[:8]} {broker.node_id}", daemon=True)
        self._broker = broker
        self._options = options
        self._budget = budget
        self._sink = sink
        self._reservation: Reservation | None = None
        self._starved_since: float | None = None
        self._fed_at = 0.0
        self._frame_bytes = 0
        self._past = FetchStats()
        self._leftovers = Leftovers(budget)
        self._lane = self._new_lane()
        self._inboxes: dict[RangeProgress, Inbox] = {}
        self._untaken: Counter[Inbox] = Counter()
        """Replies that lie in inboxes; a task that has one gets no other."""
        self._handed_at = 0.0
        self._parked: dict[Inbox, list[RangeProgress]] = {}
        """Ranges that are not read until their task takes what it has."""
        self._orders: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closing = False

    def add(self, ranges: Sequence[RangeProgress], inbox: Inbox) -> None:
        """Read ranges for a task."""

        def order() -> None:
            self._inboxes.update(dict.fromkeys(ranges, inbox))
            if kept := self._kept(ranges):
                self._deliver(kept)
            waiting = [progress for progress in ranges if not progress.done]
            if inbox in self._parked:
                self._parked[inbox] += waiting
            else:
                for progress in waiting:
                    self._lane.add(progress)

        self._order(order)

    def drop(self, progress: RangeProgress) -> None:
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

    def asked_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""
        if self._starved_since is not None or self._lane.waits_in_line(progress):
            return time.monotonic()
        return max(self._fed_at, progress.asked_since)

    def ask_to_close(self) -> None:
        """End the thread and the session, soon."""
        self._order(self._close)

    def close(self) -> None:
        """End the thread and the session; returns when both are gone, or after a second or two."""
        self.ask_to_close()
        self.join(timeout=2 + self._options.fetch.max_wait_ms / 1000)

    def stats(self) -> FetchStats:
        """What the sessions have cost."""
        return self._past + self._lane.fetcher.stats()

    def status(self) -> SessionStatus:
        """How the session stands."""
        return self._lane.fetcher.status()

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
        self._leftovers.close()
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
            self._starved_since = None
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
        fetch, budget, lane = self._options.fetch, self._budget, self._lane
        lane.partition_max_bytes = min(fetch.partition_max_bytes, budget.batch_bytes)
        lane.fetcher.reply_bytes = min(fetch.max_bytes, budget.frame_bytes)
        size = min(lane.fetcher.reply_bytes, lane.partitions * lane.partition_max_bytes)
        self._reservation = self._budget.reserve(size, _LOOK_S, self)
        self._note_hunger()
        if self._reservation is None:
            return
        lost = self._lane.send(time.monotonic() + self._options.poll_timeout_s)
        if lost:
            self._unreserve()
            self._deliver(lost)

    def _note_hunger(self) -> None:
        """Remember since when memory is wanted; tell it when it has come."""
        now = time.monotonic()
        if self._reservation is None:
            # The first try has waited already.
            self._starved_since = self._starved_since or now - _LOOK_S
        elif self._starved_since is not None:
            waited_s, self._starved_since = now - self._starved_since, None
            self._fed_at = now
            self._sink(events.Starved(broker=self._broker, seconds=waited_s))

    def _kept(self, ranges: Sequence[RangeProgress]) -> list[Arrival]:
        """What earlier replies have brought of ranges already."""
        found = [(p, *kept) for p in ranges if (kept := self._leftovers.take(p)) is not None]
        try:
            return [
                replace(self._lane.take(progress, partition), release=reservation.holder())
                for progress, partition, reservation in found
            ]
        except BaseException:  # memory that is short must not be lost for good besides
            for *_, reservation in found:
                reservation.release()
            raise

    def _receive(self) -> None:
        arrivals = self._lane.receive(time.monotonic() + self._options.poll_timeout_s)
        # Between here and the inboxes anything that raises would lose records: their ranges have
        # moved. Then _break_down fails those that have not got theirs.
        arrivals = self._charged(arrivals)
        try:
            self._deliver(arrivals)
        except BaseException:
            release(arrivals)
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

    def _new_lane(self) -> BrokerReader:
        fetch = self._options.fetch
        fetcher = Fetcher(self._broker, fetch, self._options.network, self._allocate)
        return BrokerReader(
            fetcher,
            fetch.partition_max_bytes,
            spare=self._leftovers.keep,
            skip_corrupt=self._options.skip_corrupt_batches,
        )

    def _unreserve(self) -> None:
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.release()

    def _allocate(self, size: int) -> memoryview:
        """Memory of a reply's own: it lives until the last task has decoded its part."""
        self._frame_bytes = size
        # Arrow's pool gives warm pages again: fresh ones, or a bytearray's zeros, cost more than
        # receiving does.
        return memoryview(pa.allocate_buffer(size)).cast("B")

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
