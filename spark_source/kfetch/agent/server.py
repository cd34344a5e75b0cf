"""The agent's server: workers come and go, queries' sessions stay for a lease.

One thread per connected worker reads, decodes (the loops, crc32c and the codecs hold no GIL) and
hands batches over in shared memory. A worker that dies closes its socket, which ends its thread and
takes its ranges out of the sessions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kfetch._version import __version__
from kfetch.agent.budget import Budget, Reservation
from kfetch.agent.channel import (
    AskStatus,
    Batch,
    Channel,
    Done,
    Failed,
    Gone,
    Hello,
    Hung,
    QueryStatus,
    Read,
    Release,
    Status,
    Waiting,
    peer_uid,
)
from kfetch.agent.inbox import Inbox
from kfetch.agent.segments import Segment, stream_size
from kfetch.agent.shared import SharedQuery
from kfetch.errors import AgentError, KfetchError
from kfetch.fetch.split_reader import Delivery, SplitReader
from kfetch.wire.cluster import Cluster

log = logging.getLogger(__name__)

# Two: one is read by Spark while the next is decoded. More would only hold memory.
_SEGMENTS = 2
# So many times as large as its next batch, and not small either, a segment is made anew.
_LARGE, _LARGE_BYTES = 4, 8 << 20
_GREETING_S = 10.0
# How often a worker that waits is told that its agent lives: a third of what client adds to the
# poll timeout before it takes an agent for a hung one. A read may wait for memory much longer.
_SIGN_S = 10.0


@dataclass(slots=True)
class Queries:
    """The queries of an agent."""

    budget: Budget
    _open: dict[str, SharedQuery] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def reading(self, request: Read) -> Iterator[SharedQuery]:
        """The query, kept open while a task reads."""
        name, options = request.query, request.options
        self.budget.raise_limit(options.agent_memory_bytes)
        with self._lock:
            query = self._open.setdefault(name, SharedQuery(name, options, self.budget))
            query.enter(request)
        try:
            yield query
        finally:
            query.leave()

    def close_idle(self) -> None:
        """Close the sessions of queries that nobody has read for their lease."""
        with self._lock:
            idle = [q for q in self._open.values() if q.idle_s() > q.options.agent_lease_s]
            for query in idle:
                del self._open[query.name]
        for query in idle:
            log.info("query %s: closed after its lease of %g s", query.name, query.idle_s())
            query.close()

    def close(self) -> None:
        """Close all sessions."""
        with self._lock:
            queries, self._open = list(self._open.values()), {}
        for query in queries:
            query.close()

    def status(self) -> tuple[QueryStatus, ...]:
        """What is open."""
        with self._lock:
            queries = list(self._open.values())
        return tuple(query.status() for query in queries)

    def __bool__(self) -> bool:
        return bool(self._open)


class Server:
    """Answers workers. ``serve`` accepts one connection; its thread does the rest."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._workers = 0
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether a worker is connected or a session is open."""
        return self._workers > 0 or bool(self._queries)

    def accept(self, listener: socket.socket) -> None:
        """Take one connection, of this user alone."""
        stream, _ = listener.accept()
        if peer_uid(stream) != os.getuid():
            log.warning("a connection of user %d was refused", peer_uid(stream))
            stream.close()
            return
        with self._lock:
            self._workers += 1
        threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        channel = Channel(stream, _GREETING_S)
        try:
            channel.receive()
            channel.send(Hello(version=__version__, pid=os.getpid()))
            self._answer(channel)
        except (Gone, Hung, AgentError) as cause:
            log.debug("a worker's channel ended: %s", cause)
        finally:
            channel.close()
            with self._lock:
                self._workers -= 1

    def _answer(self, channel: Channel) -> None:
        request, _ = channel.receive()
        # From here on Spark sets the pace: a slow sink may keep a batch for minutes, and a worker
        # that dies closes the socket.
        channel.set_timeout(None)
        if isinstance(request, AskStatus):
            channel.send(self._status())
        elif isinstance(request, Read):
            self._read(channel, request)
        else:
            raise AgentError(f"a worker asked for {type(request).__name__}")

    def _read(self, channel: Channel, request: Read) -> None:
        with contextlib.closing(Segments(channel, self._queries.budget)) as segments:
            # The query is left before the last word: then whoever has heard it finds the totals.
            _finish(channel, self._delivered(request, segments))

    def _delivered(self, request: Read, segments: Segments) -> Done | Failed:
        """Send every batch; the last word. Raises Gone."""
        try:
            self._deliver(request, segments)
        except (Gone, Hung):
            raise
        except KfetchError as cause:
            return Failed(error=cause)
        except Exception as cause:
            log.exception("reading for query %s", request.query)
            return Failed(error=AgentError(f"the agent failed: {cause!r}"))
        return Done()

    def _deliver(self, request: Read, segments: Segments) -> None:
        threading.current_thread().name = f"{request.query[:8]} task"  # for the log
        options, budget = request.options, self._queries.budget
        with contextlib.ExitStack() as stack:
            stack.enter_context(budget.reading())
            query = stack.enter_context(self._queries.reading(request))
            cluster = Cluster(options.bootstrap, options.network)
            stack.callback(cluster.close)
            inbox = stack.enter_context(
                contextlib.closing(Inbox(query.lane, budget, segments.look))
            )
            reading = SplitReader(request.ranges, options, cluster, inbox, query.tell)
            deliveries = stack.enter_context(contextlib.closing(reading.deliveries()))
            for delivery in deliveries:
                segments.send(delivery)
                del delivery  # or its batch would lie here while the next one is decoded

    def _status(self) -> Status:
        budget = self._queries.budget
        return Status(
            pid=os.getpid(),
            memory_used=budget.used,
            memory_peak=budget.peak,
            memory_limit=budget.limit,
            workers=self._workers - 1,
            queries=self._queries.status(),
        )


class Segments:
    """The shared memory of one read: filled by turns, given back by the worker's word."""

    def __init__(self, channel: Channel, budget: Budget) -> None:
        self._channel = channel
        self._budget = budget
        self._free: list[Segment] = []
        self._lent: dict[int, Segment] = {}
        self._charged: dict[int, Reservation] = {}
        self._made = 0
        self._sign_at = time.monotonic() + _SIGN_S

    def send(self, delivery: Delivery) -> None:
        """Put a batch into free memory and tell the worker. Waits for the worker's release."""
        size = stream_size(delivery.batch)
        # While it waits it lies in memory of its own.
        batch = self._budget.charge(size)
        try:
            segment = self._take(size)
            segment.write(delivery.batch)
        finally:
            batch.release()
        descriptors = [] if segment.sent else [segment.descriptor]
        message = Batch(segment=segment.number, size=size, positions=delivery.positions)
        self._lent[segment.number] = segment
        self._channel.send(message, descriptors)
        segment.sent = True

    def look(self) -> bool:
        """Take releases that have come, give free memory back if others wait for it, and tell
        whether the worker has hung up. Never blocks, being called while a read waits: a socket
        holds hundreds of signs."""
        if time.monotonic() >= self._sign_at:
            self._sign_at = time.monotonic() + _SIGN_S
            self._channel.send(Waiting())
        while (event := _event(self._channel)) == select.POLLIN:
            self._await_release()
        while self._free and self._budget.short:
            self._close(self._free.pop())
        return event != 0

    def close(self) -> None:
        """Give all memory back."""
        with contextlib.ExitStack() as stack:
            for segment in (*self._free, *self._lent.values()):
                stack.callback(self._close, segment)
            self._free.clear()
            self._lent.clear()

    def _take(self, size: int) -> Segment:
        # A reader may always have one, and its worker gives that back: waiting for it ends.
        while not self._free and len(self._lent) >= (_SEGMENTS if self._budget.has(size) else 1):
            self._await_release()
        if self._free:
            segment = self._free.pop()
            # One huge batch must not hold so much memory for all those that follow.
            if size <= segment.size <= max(_LARGE * size, _LARGE_BYTES):
                return segment
            self._close(segment)
        self._made += 1
        # A quarter more: batches of one topic differ a little, and a new segment costs page faults.
        segment = Segment.create(self._made, size + size // 4)
        self._charged[segment.number] = self._budget.charge(segment.size)
        return segment

    def _await_release(self) -> None:
        message, _ = self._channel.receive()
        if not isinstance(message, Release) or message.segment not in self._lent:
            raise AgentError(f"a worker sent {message!r} instead of a release")
        self._free.append(self._lent.pop(message.segment))

    def _close(self, segment: Segment) -> None:
        self._charged.pop(segment.number).release()
        segment.close()


def _finish(channel: Channel, last: Done | Failed) -> None:
    """Say the last word and let the worker hang up: closing first would cut off its releases,
    and to the worker that looks like a dead agent."""
    channel.send(last)
    with contextlib.suppress(Gone):
        while True:
            channel.receive()


def _event(channel: Channel) -> int:
    """What poll(2) says of the channel now: POLLIN for a message, more if it has ended, or 0."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN | select.POLLRDHUP)
    return sum(event for _, event in poll.poll(0))
