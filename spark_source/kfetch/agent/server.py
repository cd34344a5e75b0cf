"""The agent's server: workers come and go, and a query's sessions stay for its lease.

One thread per connected worker reads, decodes and hands batches over in shared memory. The decoding
loops, crc32c and the codecs do not hold the GIL. A worker that dies closes its socket. That ends
its thread and removes its ranges from the sessions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kfetch._version import __version__
from kfetch.agent.budget import Budget
from kfetch.agent.channel import (
    Channel,
    ChannelClosed,
    ChannelTimeout,
    Greeting,
    QueryStatus,
    ReadDone,
    ReadFailed,
    ReadRequest,
    Status,
    StatusRequest,
    peer_uid,
)
from kfetch.agent.freed_memory import return_freed_memory
from kfetch.agent.segment_pool import SegmentPool
from kfetch.agent.shared_query import SharedQuery
from kfetch.errors import AgentError, KfetchError

log = logging.getLogger(__name__)

_GREETING_TIMEOUT_S = 10.0
_REFUSAL_LOG_INTERVAL_S = 60.0
_REFUSAL_PAUSE_S = 0.1
_CODE_BYTES = 1 << 30
"""Address space of Python, numba, pyarrow and thread stacks, measured."""


def check_address_space(memory: int) -> None:
    """Raises AgentError with advice if the address space is too small for a budget.

    ``spark.executor.pyspark.memory`` sets RLIMIT_AS, and the agent inherits it.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = memory + _CODE_BYTES
    if limit not in (resource.RLIM_INFINITY, -1) and limit < needed:
        raise AgentError(
            f"the address space is limited to {limit >> 20} MiB and the agent needs "
            f"{needed >> 20} MiB",
            action="raise spark.executor.pyspark.memory, lower kfetch.agent.memory, or set "
            "kfetch.agent=inline",
        )


@dataclass(slots=True)
class OpenQueries:
    """The queries of an agent that have open sessions."""

    budget: Budget
    _by_name: dict[str, SharedQuery] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=lambda: threading.Lock())

    @contextlib.contextmanager
    def reading(self, request: ReadRequest) -> Iterator[SharedQuery]:
        """A context to read a query in. The query stays open meanwhile.

        Raises AgentError for a request with other credentials than the query's: its sessions have
        the rights of one user. Also if the address space is too small for the query's memory.
        """
        name, options = request.query, request.options
        if options.agent.memory_bytes > self.budget.limit:
            check_address_space(options.agent.memory_bytes)
        self.budget.raise_limit(options.agent.memory_bytes)
        with self._lock:
            query = self._by_name.setdefault(name, SharedQuery(name, options, self.budget))
            if query.options.network.security != options.network.security:
                raise AgentError(
                    f"query {name[:8]} reads as another user already",
                    action="start the query again",
                )
            query.begin_read(request)
        try:
            yield query
        finally:
            query.end_read()

    def close_idle(self) -> None:
        """Close the sessions of queries that no task has read for longer than their lease."""
        with self._lock:
            idle = [q for q in self._by_name.values() if q.idle_s() > q.options.agent.lease_s]
            for query in idle:
                del self._by_name[query.name]
        for query in idle:
            log.info("query %s: closed after its lease of %g s", query.name, query.idle_s())
            query.close()

    def close(self) -> None:
        """Close all sessions."""
        with self._lock:
            queries, self._by_name = list(self._by_name.values()), {}
        for query in queries:
            query.close()

    def status(self) -> tuple[QueryStatus, ...]:
        """Returns the status of every open query."""
        with self._lock:
            queries = list(self._by_name.values())
        return tuple(query.status() for query in queries)

    def __bool__(self) -> bool:
        return bool(self._by_name)


class _SpareDescriptor:
    """A descriptor for the time when no other is free."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self.acquire()

    def acquire(self) -> None:
        """Take it, if it is not held. Raises OSError."""
        if self._descriptor is None:
            self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def release(self) -> None:
        """Close it, if it is held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class Server:
    """Serves workers, each in a thread of its own."""

    def __init__(self, queries: OpenQueries) -> None:
        self._queries = queries
        self._spare = _SpareDescriptor()
        self._refusal_logged_at = -_REFUSAL_LOG_INTERVAL_S
        self._workers = 0
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether a worker is connected or a query is open."""
        return self._workers > 0 or bool(self._queries)

    def accept(self, listener: socket.socket) -> None:
        """Accept one connection and start its thread. Refuses other users than our own.

        Without a free descriptor or thread it closes the connection, and the worker tries again. An
        agent that let the worker wait would count as hung.
        """
        try:
            self._spare.acquire()
            stream, _ = listener.accept()
        except OSError as cause:
            self._refuse_with_spare(listener, cause)
            return
        if peer_uid(stream) != os.getuid():
            log.warning("a connection of user %d was refused", peer_uid(stream))
            stream.close()
            return
        with self._lock:
            self._workers += 1
        try:
            threading.Thread(target=self._serve, args=(stream,), daemon=True).start()
        except RuntimeError as cause:  # a limit on threads, processes or memory
            self._end_worker(stream)
            self._log_refusal(cause)

    def _refuse_with_spare(self, listener: socket.socket, cause: OSError) -> None:
        """Close the next connection. The spare descriptor is the one that it needs."""
        self._log_refusal(cause)
        try:
            self._spare.release()
            listener.accept()[0].close()
            self._spare.acquire()
        except OSError:
            time.sleep(_REFUSAL_PAUSE_S)

    def _log_refusal(self, cause: Exception) -> None:
        if time.monotonic() - self._refusal_logged_at >= _REFUSAL_LOG_INTERVAL_S:
            self._refusal_logged_at = time.monotonic()
            log.warning("the agent has no room: it refuses workers for now (%s)", cause)

    def _end_worker(self, stream: socket.socket | Channel) -> None:
        stream.close()
        with self._lock:
            self._workers -= 1

    def _serve(self, stream: socket.socket) -> None:
        channel = Channel(stream, _GREETING_TIMEOUT_S)
        try:
            channel.receive()
            channel.send(Greeting(version=__version__, pid=os.getpid()))
            self._answer(channel)
        except (ChannelClosed, ChannelTimeout, AgentError) as cause:
            log.debug("a worker's channel ended: %s", cause)
        finally:
            self._end_worker(channel)

    def _answer(self, channel: Channel) -> None:
        request, _ = channel.receive()
        # From here on Spark sets the pace, so no wait has a limit. A slow sink may keep a batch for
        # minutes. A worker that dies closes its socket.
        channel.set_timeout(None)
        if isinstance(request, StatusRequest):
            channel.send(self._status())
        elif isinstance(request, ReadRequest):
            self._read(channel, request)
        else:
            raise AgentError(f"a worker asked for {type(request).__name__}")

    def _read(self, channel: Channel, request: ReadRequest) -> None:
        with contextlib.closing(SegmentPool(channel, self._queries.budget)) as segments:
            # The read of the query ends before the last message leaves. So a worker that has it
            # finds the statistics written.
            _send_last(channel, self._outcome(request, segments))

    def _outcome(self, request: ReadRequest, segments: SegmentPool) -> ReadDone | ReadFailed:
        """Send every batch. Returns the last message. Raises ChannelClosed, ChannelTimeout."""
        try:
            self._send_batches(request, segments)
        except (ChannelClosed, ChannelTimeout):
            raise
        except KfetchError as cause:
            return ReadFailed(error=cause)
        except Exception as cause:
            log.exception("reading for query %s", request.query)
            return ReadFailed(error=AgentError(f"the agent failed: {cause!r}"))
        return ReadDone()

    def _send_batches(self, request: ReadRequest, segments: SegmentPool) -> None:
        """Send every batch. The last reader returns the memory that the allocators have kept."""
        threading.current_thread().name = f"{request.query[:8]} task"  # for the log
        with contextlib.ExitStack() as stack:
            stack.callback(self._return_freed_memory)
            stack.enter_context(self._queries.budget.reading(request.options.agent.worker_bytes))
            query = stack.enter_context(self._queries.reading(request))
            deliveries = query.deliveries(request.ranges, request.options, segments.poll_worker)
            stack.callback(deliveries.close)
            for delivery in deliveries:
                segments.send(delivery)
                del delivery  # free its batch before the next one is decoded

    def _return_freed_memory(self) -> None:
        if not self._queries.budget.readers:
            return_freed_memory(is_idle=True)

    def _status(self) -> Status:
        budget = self._queries.budget
        return Status(
            pid=os.getpid(),
            memory_used=budget.used,
            memory_peak=budget.peak,
            memory_limit=budget.limit,
            workers=self._workers - 1,  # without the one that asks
            queries=self._queries.status(),
        )


def _send_last(channel: Channel, message: ReadDone | ReadFailed) -> None:
    """Send the last message, and wait until the worker closes its socket.

    If the agent closed first, it would cut off the worker's releases. The worker would take that
    for a dead agent.
    """
    channel.send(message)
    with contextlib.suppress(ChannelClosed):
        while True:
            channel.receive()
