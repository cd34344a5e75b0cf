"""The thread of one broker of one query: it fetches for every task that reads there.

It fetches as long as any task has ranges at its broker and the budget has memory. It delivers a
reply before it does anything else, because the reply's ranges have already moved. The next request
leaves when every task has received its arrivals, and travels while the tasks decode. If a task does
not take its arrivals, the thread pauses the task's ranges until it does.

A thread that has had no range for the query's lease, and for a minute, retires: it closes its
session and ends. So a broker that moved to another address costs nothing, nor does one that leads
none of the partitions any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pyarrow as pa

from kfetch.agent.budget import Budget, Reservation
from kfetch.agent.inbox import Inbox
from kfetch.agent.read_ahead import ReadAhead
from kfetch.errors import AgentError, KfetchError
from kfetch.fetch import events
from kfetch.fetch.arrivals import Arrival, RecordsArrived, release
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.read_replicas import ReadReplicas
from kfetch.fetch.stats import FetchStats, SessionStatus
from kfetch.model import Broker
from kfetch.options import SourceOptions

log = logging.getLogger(__name__)

# How long the thread waits for memory before it runs the commands that came meanwhile.
_MEMORY_WAIT_S = 0.2
# How long the thread waits for a task to take its arrivals before it pauses the task's ranges.
# A pause costs two changes of the session per partition, so a short delay must not cause one.
_SLOW_TASK_S = 0.5
# A thread without a range lives so long at least, however short the lease is: Spark may give an
# executor no task of a broker for several micro-batches.
_IDLE_MIN_S = 60.0


class BrokerThread(threading.Thread):
    """The thread of one broker of one query. Tasks call it; commands carry the calls over."""

    def __init__(
        self,
        query: str,
        broker: Broker,
        options: SourceOptions,
        budget: Budget,
        on_event: events.EventHandler = events.log_event,
        on_end: Callable[[BrokerThread], None] | None = None,
        replicas: ReadReplicas | None = None,
    ) -> None:
        super().__init__(name=f"{query[:8]} {broker.node_id}", daemon=True)
        self.broker = broker
        """The broker from which it fetches."""
        self.retired = False
        """Whether it accepts no more ranges: it has had none for the lease, or it has ended."""
        self._on_end = on_end
        self._replicas = replicas or ReadReplicas()
        self._options = options
        self._budget = budget
        self._on_event = on_event
        self._reservation: Reservation | None = None
        """Memory for the next reply."""
        self._memory_wait_since: float | None = None
        self._memory_came_at = 0.0
        self._reply_bytes = 0
        self._former_stats = FetchStats()
        """Of BrokerReaders that a bug has ended."""
        self._read_ahead = ReadAhead(budget)
        self._reader = self._new_reader()
        self._inboxes: dict[RangeProgress, Inbox] = {}
        self._pending_deliveries: Counter[Inbox] = Counter()
        """Deliveries that a task has not received. A task that has one gets no other."""
        self._delivered_at = 0.0
        self._paused: dict[Inbox, list[RangeProgress]] = {}
        """Ranges that the thread does not read until their task takes its arrivals."""
        self._commands: deque[Callable[[], None]] = deque()
        self._command_came = threading.Condition()
        self._closing = False

    def add(self, ranges: Sequence[RangeProgress], inbox: Inbox) -> bool:
        """Read ranges for a task. Returns False if the thread has retired."""
        return self._enqueue(partial(self._add, ranges, inbox))

    def drop(self, progress: RangeProgress) -> None:
        """Stop reading a range."""
        self._enqueue(partial(self._drop, progress))

    def requested_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""
        if self._memory_wait_since is not None or self._reader.is_queued(progress):
            return time.monotonic()
        return max(self._memory_came_at, progress.requested_at)

    def request_close(self) -> None:
        """Ask the thread to close its session and end. Returns at once."""
        self._enqueue(self._close)

    def close(self) -> None:
        """Close the session and end the thread. Waits two seconds and one long poll at most."""
        self.request_close()
        self.join(timeout=2 + self._options.fetch.max_wait_ms / 1000)

    def stats(self) -> FetchStats:
        """Returns what the sessions at this broker have cost."""
        return self._former_stats + self._reader.fetcher.stats()

    def status(self) -> SessionStatus:
        """Returns the state of the session."""
        return self._reader.status()

    def run(self) -> None:
        """Fetch until closed. An unexpected error fails the tasks and never gets lost."""
        with ExitStack() as at_end:  # each step runs whatever the others raise, the last one first
            if self._on_end is not None:
                at_end.callback(self._on_end, self)
            at_end.callback(lambda: self._reader.fetcher.close())
            at_end.callback(self._read_ahead.close)
            at_end.callback(self._unreserve)
            at_end.callback(self._budget.leave_queue, self)
            at_end.callback(self._retire)
            while not self._closing:
                try:
                    self._step()
                except Exception as cause:
                    log.exception("%s", self.name)
                    self._fail_tasks(cause)

    def _retire(self) -> None:
        """Accept no more ranges. A range comes either before this, or to another thread."""
        with self._command_came:
            self.retired = self._closing = True

    def _step(self) -> None:
        """Run commands. Then receive the reply in flight, wait for a command, or send."""
        self._run_commands()
        if self._closing:
            return
        if self._reader.in_flight:
            self._receive()
        elif not (self._inboxes or self._reader.active):
            self._rest()
        elif (pause_s := self._pause_s()) > 0:
            self._budget.leave_queue(self)
            self._memory_wait_since = None
            self._wait_for_command(pause_s)
        else:
            self._send()

    def _rest(self) -> None:
        """Wait for a command while there is no range. Retire if none comes during the lease."""
        self._budget.leave_queue(self)
        self._memory_wait_since = None
        self._wait_for_command(max(_IDLE_MIN_S, self._options.agent.lease_s))
        with self._command_came:
            # Under the lock: a range comes either before this, or to another thread.
            self.retired = self._closing = not self._commands

    def _pause_s(self) -> float:
        """Returns for how many seconds nothing is to be sent, unless a command comes."""
        if not self._reader.active:
            return threading.TIMEOUT_MAX
        if self._pending_deliveries.keys() - self._paused.keys():
            patience_s = self._delivered_at + _SLOW_TASK_S - time.monotonic()
            if patience_s > 0:
                return patience_s
            self._pause_slow_tasks()
        return self._reader.fetcher.pause_s() if self._reader.active else threading.TIMEOUT_MAX

    def _send(self) -> None:
        fetch, budget, reader = self._options.fetch, self._budget, self._reader
        reader.partition_max_bytes = min(fetch.partition_max_bytes, budget.batch_bytes)
        reader.fetcher.reply_bytes_max = min(fetch.max_bytes, budget.reply_bytes_max)
        size = min(
            reader.fetcher.reply_bytes_max, reader.partition_count * reader.partition_max_bytes
        )
        self._reservation = budget.reserve(size, _MEMORY_WAIT_S, self)
        self._record_memory_wait()
        if self._reservation is None:
            return
        failed = reader.send(time.monotonic() + self._options.poll_timeout_s)
        if failed:
            self._unreserve()
            self._deliver(failed)

    def _record_memory_wait(self) -> None:
        """Note since when the thread waits for memory; publish the wait when it is over."""
        now = time.monotonic()
        if self._reservation is None:
            # The first attempt has already waited.
            self._memory_wait_since = self._memory_wait_since or now - _MEMORY_WAIT_S
        elif self._memory_wait_since is not None:
            waited_s, self._memory_wait_since = now - self._memory_wait_since, None
            self._memory_came_at = now
            self._on_event(events.WaitedForMemory(broker=self.broker, seconds=waited_s))

    def _receive(self) -> None:
        arrivals = self._reader.receive(time.monotonic() + self._options.poll_timeout_s)
        # The ranges have moved. If anything raises before their arrivals lie in inboxes, records
        # are lost. _fail_tasks then fails the tasks of all these ranges.
        arrivals = self._share_reservation(arrivals)
        try:
            self._deliver(arrivals)
        except BaseException:
            release(arrivals)
            raise

    def _fail_tasks(self, cause: Exception) -> None:
        """A bug, or a file that can't be used: fail every task. The next ones get a new session."""
        error = (
            cause if isinstance(cause, KfetchError) else AgentError(f"the agent failed: {cause!r}")
        )
        for inbox in {*self._inboxes.values()}:
            inbox.fail(error)
        self._unreserve()
        self._inboxes.clear()
        self._paused.clear()
        broken, self._reader = self._reader, self._new_reader()
        self._former_stats += broken.fetcher.stats()
        try:
            broken.fetcher.close()
        except Exception:
            log.exception("%s: closing a broken session", self.name)

    def _new_reader(self) -> BrokerReader:
        fetch = self._options.fetch
        fetcher = Fetcher(self.broker, fetch, self._options.network, self._allocate)
        return BrokerReader(
            fetcher,
            fetch.partition_max_bytes,
            on_range_done=self._read_ahead.store,
            skip_corrupt=self._options.skip_corrupt_batches,
            replicas=self._replicas,
        )

    def _unreserve(self) -> None:
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.release()

    def _allocate(self, size: int) -> memoryview:
        """Returns memory for one reply. It lives until the last task has decoded its records."""
        self._reply_bytes = size
        # Arrow's pool reuses warm pages. Fresh pages, or a bytearray's zeros, cost more than
        # receiving does.
        return memoryview(pa.allocate_buffer(size)).cast("B")

    def _share_reservation(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        """Shrink the reservation to the reply's size, and let all arrivals with records share it.

        Returns the arrivals, each with its release.
        """
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            return list(arrivals)
        holders = sum(isinstance(arrival, RecordsArrived) for arrival in arrivals)
        reservation.resize(self._reply_bytes if holders else 0)
        reservation.share(holders)
        return [
            replace(a, release=reservation.single_release()) if isinstance(a, RecordsArrived) else a
            for a in arrivals
        ]

    def _deliver(self, arrivals: Sequence[Arrival]) -> None:
        by_inbox: dict[Inbox, list[Arrival]] = {}
        for arrival in arrivals:
            inbox = self._inboxes.get(arrival.progress)
            if inbox is None:  # the task has dropped the range meanwhile
                release([arrival])
            else:
                by_inbox.setdefault(inbox, []).append(arrival)
        for inbox, part in by_inbox.items():
            if inbox.deliver(part, partial(self._enqueue, partial(self._delivery_taken, inbox))):
                self._pending_deliveries[inbox] += 1
        self._delivered_at = time.monotonic()
        for arrival in arrivals:
            stays = isinstance(arrival, RecordsArrived) and not arrival.is_last
            if not stays:
                self._inboxes.pop(arrival.progress, None)

    def _delivery_taken(self, inbox: Inbox) -> None:
        """Resume the ranges of a task that has received its arrivals."""
        self._pending_deliveries[inbox] -= 1
        if self._pending_deliveries[inbox] == 0:
            del self._pending_deliveries[inbox]
            for progress in self._paused.pop(inbox, []):
                self._reader.add(progress)

    def _pause_slow_tasks(self) -> None:
        """Pause the ranges of tasks that don't take their arrivals: other tasks wait for them."""
        for inbox in self._pending_deliveries.keys() - self._paused.keys():
            ranges = [progress for progress, owner in self._inboxes.items() if owner is inbox]
            self._paused[inbox] = ranges
            for progress in ranges:
                self._reader.drop(progress)

    def _enqueue(self, command: Callable[[], None]) -> bool:
        with self._command_came:
            if not self.retired:
                self._commands.append(command)
                self._command_came.notify()
            return not self.retired

    def _wait_for_command(self, timeout_s: float) -> None:
        with self._command_came:
            self._command_came.wait_for(lambda: bool(self._commands), timeout_s)

    def _run_commands(self) -> None:
        while self._commands:  # one by one: a command that raises does not lose the next ones
            self._commands.popleft()()

    def _add(self, ranges: Sequence[RangeProgress], inbox: Inbox) -> None:
        self._inboxes.update(dict.fromkeys(ranges, inbox))
        if arrivals := self._read_ahead_arrivals(ranges):
            self._deliver(arrivals)
        unfinished = [progress for progress in ranges if not progress.done]
        if inbox in self._paused:
            self._paused[inbox] += unfinished
        else:
            for progress in unfinished:
                self._reader.add(progress)

    def _read_ahead_arrivals(self, ranges: Sequence[RangeProgress]) -> list[Arrival]:
        """Returns the arrivals of ranges whose records an earlier reply has brought."""
        cached = [(p, *records) for p in ranges if (records := self._read_ahead.take(p))]
        try:
            return [
                replace(
                    self._reader.accept_records(progress, partition),
                    release=reservation.single_release(),
                )
                for progress, partition, reservation in cached
            ]
        except BaseException:  # for want of memory, say: then at least return these bytes
            for *_, reservation in cached:
                reservation.release()
            raise

    def _drop(self, progress: RangeProgress) -> None:
        inbox = self._inboxes.pop(progress, None)
        if inbox is None:
            return
        if progress in self._paused.get(inbox, []):
            self._paused[inbox].remove(progress)
        else:
            self._reader.drop(progress)

    def _close(self) -> None:
        self._closing = True
