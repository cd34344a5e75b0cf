"""Reads a split inside Spark's Python worker: fetch sessions live there, one per broker.

The worker is an agent of its own, with one task, no socket and no thread. The task fetches when it
waits for arrivals. Spark uses a worker for many tasks, so a query's sessions outlive a task. The
next micro-batch's request names only the partitions that changed.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from kfetch.agent.budget import Budget
from kfetch.agent.channel import ReadRequest
from kfetch.agent.inbox import Inbox
from kfetch.agent.shared_broker import SharedBroker
from kfetch.agent.shared_query import SharedQuery
from kfetch.fetch.progress import RangeProgress
from kfetch.model import Broker, OffsetRange, Split
from kfetch.options import SourceOptions
from kfetch.session.replies import PartitionReply
from kfetch.wire.frames import ReplyBuffer

QUERIES_MAX = 4
"""So many queries keep their sessions in a worker. One more closes the least recently used."""

_NO_LIMIT = sys.maxsize
"""Of a worker's memory: its one task holds a reply of each broker and one Arrow batch."""

_queries: OrderedDict[str, InlineQuery] = OrderedDict()


@atexit.register
def close_all() -> None:
    """Close every session of this process. If Spark kills a worker, its sessions expire."""
    while _queries:
        _queries.popitem()[1].close()


if hasattr(os, "register_at_fork"):
    # A forked process has the sockets of these sessions, and the sessions are its parent's.
    os.register_at_fork(after_in_child=_queries.clear)


def read(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split, in order within each partition. Raises KfetchError."""
    query = _queries.pop(split.query, None) or InlineQuery(split.query, options)
    if query.options.network.security != options.network.security:
        # Its sessions have the rights of one user.
        query.close()
        query = InlineQuery(split.query, options)
    _queries[split.query] = query
    while len(_queries) > QUERIES_MAX:
        _queries.popitem(last=False)[1].close()
    return query.read(split.ranges)


def read_once(split: Split, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split as ``read`` does, and closes the sessions behind it."""
    with closing(InlineQuery(split.query, options)) as query:
        yield from query.read(split.ranges)


class InlineQuery(SharedQuery):
    """A query of this process. Its one task fetches from each broker in turn."""

    def __init__(self, name: str, options: SourceOptions) -> None:
        super().__init__(name, options, Budget(_NO_LIMIT))
        self._buffers: dict[Broker, ReplyBuffer] = {}
        self._replies = 0
        """Replies received; it chooses the next broker, so that each one has its turn."""

    def read(self, ranges: Sequence[OffsetRange]) -> Generator[pa.RecordBatch, None, None]:
        """Yields the records of ranges; see ``inline.read``."""
        self._close_former_addresses()
        self.begin_read(ReadRequest(query=self.name, options=self.options, ranges=tuple(ranges)))
        try:
            with closing(self.deliveries(ranges, self.options)) as deliveries:
                for delivery in deliveries:
                    yield delivery.batch
        finally:
            for buffer in self._buffers.values():
                buffer.trim()
            self.end_read()

    def _start(self, broker: Broker) -> InlineBroker:
        buffer = self._buffers[broker] = ReplyBuffer()
        return InlineBroker(broker, self.options, self._budget, self.totals, self.replicas, buffer)

    def _fetch(self, deadline: float) -> float:
        """Send what can be sent, and receive one broker's reply, the brokers in turn.

        Its next request leaves when the task takes the arrivals, unless the broker throttles us.
        """
        # A task that ended early may have left a request at a broker that this one does not read.
        active = [broker for broker in self._running if broker.active]
        ready = [broker for broker in active if not broker.in_flight]
        pause_s = min([broker.step(deadline) for broker in ready], default=threading.TIMEOUT_MAX)
        waiting = [broker for broker in active if broker.in_flight]
        if not waiting:
            return pause_s
        self._replies += 1
        return waiting[self._replies % len(waiting)].step(deadline)

    def _close_former_addresses(self) -> None:
        """Close the sessions of brokers that have moved to another address since the last read."""
        latest = {one.broker.node_id: one for one in self._running}
        for former in [one for one in self._running if one is not latest[one.broker.node_id]]:
            former.close()
            del self._buffers[former.broker]
            self._forget(former)


class InlineBroker(SharedBroker):
    """A broker that its task's own thread steps, when the task waits for arrivals."""

    _deadline = 0.0
    """Of the last step."""

    def step(self, deadline: float) -> float:
        """See SharedBroker."""
        self._deadline = deadline
        return super().step(deadline)

    def _delivery_taken(self, inbox: Inbox) -> None:
        """Also send the next request: it travels while the task decodes."""
        super()._delivery_taken(inbox)
        if not self.in_flight:
            self.step(self._deadline)

    def _store_rest(self, progress: RangeProgress, partition: PartitionReply) -> None:
        """Keep nothing: no limit would drop it."""
