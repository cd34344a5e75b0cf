"""One query of an agent, shared by its tasks: a thread with one session per broker, and totals."""

from __future__ import annotations

import logging
import threading
import time

from kfetch.agent.broker_thread import BrokerThread
from kfetch.agent.budget import Budget
from kfetch.agent.channel import QueryStatus, ReadRequest
from kfetch.agent.shared_metadata import SharedMetadata
from kfetch.fetch import events
from kfetch.fetch.read_replicas import ReadReplicas
from kfetch.fetch.stats import FetchStats, total
from kfetch.fetch.stats_file import write_stats
from kfetch.fetch.totals import Totals
from kfetch.model import Broker
from kfetch.options import SourceOptions

log = logging.getLogger(__name__)


class SharedQuery:
    """The broker threads of one query on this executor."""

    def __init__(self, name: str, options: SourceOptions, budget: Budget) -> None:
        self.name = name
        self.options = options
        self.metadata = SharedMetadata(options)
        """The leaders of partitions, for all tasks."""
        self.replicas = ReadReplicas.of(options)
        """The followers that partitions are read from, for all tasks."""
        self._budget = budget
        self._threads: dict[Broker, BrokerThread] = {}
        self._running: list[BrokerThread] = []
        """These threads, and those that have retired and still close their sessions."""
        self._ended_stats = FetchStats()
        """Of the threads that have ended."""
        self._lock = threading.Lock()
        self._readers = 0
        self._stream = ""
        self._topics: set[str] = set()
        self._idle_since = time.monotonic()
        self._totals = Totals()
        """Of events that belong to the whole query and to no fetcher."""
        self._stats_lock = threading.Lock()

    def thread_of(self, broker: Broker) -> BrokerThread:
        """Returns the broker's thread. Starts one if there is none, or if it has retired."""
        with self._lock:
            thread = self._threads.get(broker)
            if thread is None or thread.retired:
                thread = self._new_thread(broker)
                thread.start()  # may raise for want of threads; then the next task tries again
                self._threads[broker] = thread
                self._running.append(thread)
            return thread

    def _new_thread(self, broker: Broker) -> BrokerThread:
        return BrokerThread(
            self.name,
            broker,
            self.options,
            self._budget,
            self.count_event,
            self._forget,
            self.replicas,
        )

    def _forget(self, thread: BrokerThread) -> None:
        """Remove a thread that ends, and keep what its sessions have cost."""
        with self._lock:
            self._running.remove(thread)
            self._ended_stats += thread.stats()
            if self._threads.get(thread.broker) is thread:
                del self._threads[thread.broker]

    def begin_read(self, request: ReadRequest) -> None:
        """Count a task that begins to read."""
        if request.stream != self._stream:
            log.info("query %s is Spark's %s", self.name[:8], request.stream)
        with self._lock:
            self._readers += 1
            self._stream = request.stream
            self._topics.update(item.tp.topic for item in request.ranges)

    def count_event(self, event: events.FetchEvent) -> None:
        """The event handler for events that belong to the whole query."""
        self._totals.add(event)
        events.log_event(event)

    def end_read(self) -> None:
        """Count a task that has ended, and write the statistics."""
        with self._lock:
            self._readers -= 1
            self._idle_since = time.monotonic()
        if self.options.reports.stats_directory:
            # One task after the other: older totals must not replace newer ones.
            with self._stats_lock:
                write_stats(self.options.reports.stats_directory, self.name, self.stats())

    def idle_s(self) -> float:
        """Returns for how many seconds no task has read."""
        with self._lock:
            return 0.0 if self._readers else time.monotonic() - self._idle_since

    def stats(self) -> FetchStats:
        """Returns what the query's sessions have cost in this agent."""
        with self._lock:
            threads, ended = list(self._running), self._ended_stats
        return total(thread.stats() for thread in threads) + ended + self._totals.stats()

    def status(self) -> QueryStatus:
        """Returns the state of the query's sessions, and its totals."""
        with self._lock:
            threads, topics = list(self._threads.values()), sorted(self._topics)
        return QueryStatus(
            name=self.name,
            stream=self._stream,
            topics=tuple(topics),
            idle_s=self.idle_s(),
            sessions=tuple(thread.status() for thread in threads),
            totals=self.stats(),
        )

    def close(self) -> None:
        """Close every session."""
        with self._lock:
            threads = list(self._running)
            self._threads.clear()
        for thread in threads:  # all at once: each may wait for its reply in flight
            thread.request_close()
        for thread in threads:
            thread.close()
