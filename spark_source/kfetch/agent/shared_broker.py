"""One broker of one query, shared by the tasks that read there: one session for all of them.

It fetches as long as any task has ranges at its broker and the budget has memory. It delivers a
reply before it does anything else, because the reply's ranges have already moved. The next request
leaves when every task has received its arrivals, and travels while the tasks decode. If a task does
not take its arrivals, their broker pauses the task's ranges until it does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pyarrow as pa

from kfetch.agent.budget import Budget
from kfetch.agent.inbox import Inbox
from kfetch.agent.read_ahead import ReadAhead
from kfetch.agent.reply_memory import ReplyMemory
from kfetch.errors import AgentError, KfetchError
from kfetch.fetch.arrivals import Arrival, RecordsArrived, release
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.replicas import ReadReplicas
from kfetch.fetch.stats import SessionStatus
from kfetch.fetch.totals import Totals
from kfetch.model import Broker
from kfetch.options import SourceOptions
from kfetch.session.replies import PartitionReply
from kfetch.wire.frames import Allocate

log = logging.getLogger(__name__)

# How long a broker waits for a task to take its arrivals before it pauses the task's ranges.
# A pause costs two changes of the session per partition, so a short delay must not cause one.
_SLOW_TASK_S = 0.5


def allocate_warm(size: int) -> memoryview:
    """Returns memory from Arrow's pool, which reuses warm pages.

    Fresh pages, or a bytearray's zeros, cost more than receiving does.
    """
    return memoryview(pa.allocate_buffer(size)).cast("B")


class SharedBroker:
    """One broker of one query. One thread at a time steps it, and runs the tasks' calls.

    A delivery changes the session, the inboxes and the pauses together, so they stand in one class.
    """

    def __init__(
        self,
        broker: Broker,
        options: SourceOptions,
        budget: Budget,
        totals: Totals,
        replicas: ReadReplicas,
        allocate: Allocate = allocate_warm,
    ) -> None:
        self.broker = broker
        """The broker from which it fetches."""
        self.retired = False
        """Whether it accepts no more ranges."""
        self._replicas = replicas
        self._options = options
        self._budget = budget
        self._totals = totals
        self._memory = ReplyMemory(budget, allocate, totals)
        self._read_ahead = ReadAhead(budget)
        self._reader = self._new_reader()
        self._inboxes: dict[RangeProgress, Inbox] = {}
        self._pending_deliveries: Counter[Inbox] = Counter()
        """Deliveries that a task has not received. A task that has one gets no other."""
        self._delivered_at = 0.0
        self._paused: dict[Inbox, list[RangeProgress]] = {}
        """Ranges that are not read until their task takes its arrivals."""

    def add(self, ranges: Sequence[RangeProgress], inbox: Inbox) -> bool:
        """Read ranges for a task. Returns False if it has retired."""
        return self._post(partial(self._add, ranges, inbox))

    def drop(self, progress: RangeProgress) -> None:
        """Stop reading a range."""
        self._post(partial(self._drop, progress))

    def requested_since(self, progress: RangeProgress) -> float:
        """See ArrivalSource."""
        if self._reader.is_queued(progress):
            return time.monotonic()
        return max(self._memory.requested_since, progress.requested_at) - progress.asked_s

    def status(self) -> SessionStatus:
        """Returns the state of the session."""
        return self._reader.status()

    @property
    def in_flight(self) -> bool:
        """Whether a request waits for its reply."""
        return self._reader.fetcher.in_flight

    @property
    def active(self) -> bool:
        """Whether there is any range to read now."""
        return self._reader.active

    @property
    def idle(self) -> bool:
        """Whether there is no range to read, and no reply to receive."""
        return not (self._reader.fetcher.in_flight or self._inboxes or self._reader.active)

    def step(self, deadline: float) -> float:
        """Receive the reply in flight, or send the next request, by ``deadline``.

        Returns for how many seconds there is nothing to do, unless a task calls.
        """
        if self._reader.fetcher.in_flight:
            self._receive(deadline)
        elif (pause_s := self._pause_s()) > 0:
            self._memory.stop_waiting()
            return pause_s
        else:
            self._send(deadline)
        return 0.0

    def request_close(self) -> None:
        """Ask for the end of the session. Returns at once."""

    def close(self) -> None:
        """Close the session, and return all memory. Each step runs whatever the others raise."""
        with ExitStack() as steps:  # the last one first
            steps.callback(lambda: self._reader.fetcher.close())
            steps.callback(self._read_ahead.close)
            steps.callback(self._memory.release)
            steps.callback(self._memory.stop_waiting)

    def _post(self, command: Callable[[], object]) -> bool:
        """Run a command of a task in the thread that steps. Returns False if it never runs."""
        command()
        return True

    def _pause_s(self) -> float:
        """Returns for how many seconds nothing is to be sent, unless a task calls."""
        if not self._reader.active:
            return threading.TIMEOUT_MAX
        if self._pending_deliveries.keys() - self._paused.keys():
            patience_s = self._delivered_at + _SLOW_TASK_S - time.monotonic()
            if patience_s > 0:
                return patience_s
            self._pause_slow_tasks()
        return self._reader.fetcher.pause_s() if self._reader.active else threading.TIMEOUT_MAX

    def _send(self, deadline: float) -> None:
        fetch, budget, reader = self._options.fetch, self._budget, self._reader
        reader.partition_max_bytes = min(fetch.partition_max_bytes, budget.batch_bytes)
        reader.fetcher.reply_bytes_max = min(fetch.max_bytes, budget.reply_bytes_max)
        size = min(
            reader.fetcher.reply_bytes_max, reader.partition_count * reader.partition_max_bytes
        )
        if not self._memory.reserve(size):
            return
        failed = reader.send(deadline)
        if failed:
            self._memory.release()
            self._deliver(failed)

    def _receive(self, deadline: float) -> None:
        arrivals = self._reader.receive(deadline)
        # The ranges have moved. If anything raises before their arrivals lie in inboxes, records
        # are lost. The caller then fails the tasks of all these ranges.
        arrivals = self._memory.share(arrivals)
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
        self._memory.release()
        self._inboxes.clear()
        self._paused.clear()
        broken, self._reader = self._reader, self._new_reader()
        try:
            broken.fetcher.close()
        except Exception:
            log.exception("%s: closing a broken session", self.broker)

    def _new_reader(self) -> BrokerReader:
        fetch = self._options.fetch
        fetcher = Fetcher(
            self.broker, fetch, self._options.network, self._memory.allocate, self._totals
        )
        return BrokerReader(
            fetcher,
            fetch.partition_max_bytes,
            on_range_done=self._store_rest,
            skip_corrupt=self._options.skip_corrupt_batches,
            replicas=self._replicas,
            requests_since=lambda: self._memory.requested_since,
        )

    def _store_rest(self, progress: RangeProgress, partition: PartitionReply) -> None:
        """Keep the records beyond the end of a range for the next micro-batch."""
        self._read_ahead.store(progress, partition)

    def _deliver(self, arrivals: Sequence[Arrival]) -> None:
        by_inbox: dict[Inbox, list[Arrival]] = {}
        for arrival in arrivals:
            inbox = self._inboxes.get(arrival.progress)
            if inbox is None:  # the task has dropped the range meanwhile
                release([arrival])
            else:
                by_inbox.setdefault(inbox, []).append(arrival)
        for inbox, part in by_inbox.items():
            if inbox.deliver(part, partial(self._post, partial(self._delivery_taken, inbox))):
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
                    release=reservation.release,
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
