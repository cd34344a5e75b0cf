"""One query of an agent, shared by its tasks: one session per broker, and totals."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing

from kfetch.agent.broker_thread import BrokerThread
from kfetch.agent.budget import Budget
from kfetch.agent.channel import QueryStatus, ReadRequest
from kfetch.agent.inbox import Inbox
from kfetch.agent.shared_broker import SharedBroker
from kfetch.agent.shared_metadata import SharedMetadata
from kfetch.fetch.replicas import ReadReplicas
from kfetch.fetch.split_reader import Delivery, SplitReader
from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import Totals, own_stats, write_stats
from kfetch.model import Broker, OffsetRange
from kfetch.options import SourceOptions
from kfetch.wire.cluster import Cluster

log = logging.getLogger(__name__)


class SharedQuery:
    """The brokers of one query on this executor. Each has a thread of its own, but not ``inline``.

    One lock guards the brokers and the readers, which a status shows together.
    """

    def __init__(self, name: str, options: SourceOptions, budget: Budget) -> None:
        self.name = name
        self.options = options
        self.metadata = SharedMetadata(options)
        """The leaders of partitions, for all tasks."""
        self.replicas = ReadReplicas.of(options)
        """The followers that partitions are read from, for all tasks."""
        self.totals = Totals()
        """What the sessions and the tasks have cost, those that have ended included."""
        self._budget = budget
        self._brokers: dict[Broker, SharedBroker] = {}
        self._running: list[SharedBroker] = []
        """These brokers, and those that have retired and still close their sessions."""
        self._lock = threading.Lock()
        self._readers = 0
        self._stream = ""
        self._topics: set[str] = set()
        self._idle_since = time.monotonic()
        self._stats_lock = threading.Lock()
        self._earlier_stats: FetchStats | None = None
        """What the file has from before this query opened. None before the first task's end."""

    def deliveries(
        self,
        ranges: Sequence[OffsetRange],
        options: SourceOptions,
        worker_has_closed: Callable[[], bool] = lambda: False,
    ) -> Generator[Delivery, None, None]:
        """Yields the batches of a task's ranges. Raises KfetchError.

        It calls ``worker_has_closed`` at intervals while nothing arrives; see Inbox.
        """
        with (
            closing(Cluster(options.bootstrap, options.network)) as cluster,
            closing(Inbox(self.reader_of, self._budget, worker_has_closed, self._fetch)) as inbox,
        ):
            reader = SplitReader(
                ranges, options, cluster, inbox, self.totals, self.metadata, self.replicas
            )
            with closing(reader.deliveries()) as deliveries:
                yield from deliveries

    def reader_of(self, broker: Broker) -> SharedBroker:
        """Returns the reader of a broker. Starts one if there is none, or if it has retired."""
        with self._lock:
            reader = self._brokers.get(broker)
            if reader is None or reader.retired:
                reader = self._start(broker)  # if it raises, the next task tries again
                self._brokers[broker] = reader
                self._running.append(reader)
            return reader

    def _start(self, broker: Broker) -> SharedBroker:
        return BrokerThread(
            self.name,
            broker,
            self.options,
            self._budget,
            self.totals,
            self.replicas,
            self._forget,
        )

    def _fetch(self, deadline: float) -> float:
        """Fetch, if no thread does. Returns for how many seconds nothing is to be fetched."""
        return threading.TIMEOUT_MAX

    def _forget(self, ended: SharedBroker) -> None:
        """Remove a broker whose session is closed."""
        with self._lock:
            self._running.remove(ended)
            if self._brokers.get(ended.broker) is ended:
                del self._brokers[ended.broker]

    def begin_read(self, request: ReadRequest) -> None:
        """Count a task that begins to read."""
        if request.stream != self._stream:
            log.info("query %s is Spark's %s", self.name[:8], request.stream)
        with self._lock:
            self._readers += 1
            self._stream = request.stream
            self._topics.update(item.tp.topic for item in request.ranges)

    def end_read(self) -> None:
        """Count a task that has ended, and write the statistics."""
        with self._lock:
            self._readers -= 1
            self._idle_since = time.monotonic()
        if directory := self.options.reports.stats_directory:
            # One task after the other: older totals must not replace newer ones.
            with self._stats_lock:
                if self._earlier_stats is None:
                    self._earlier_stats = own_stats(directory, self.name)
                write_stats(directory, self.name, self._earlier_stats + self.stats())

    def idle_s(self) -> float:
        """Returns for how many seconds no task has read."""
        with self._lock:
            return 0.0 if self._readers else time.monotonic() - self._idle_since

    def stats(self) -> FetchStats:
        """Returns what the query's sessions have cost in this agent."""
        return self.totals.stats()

    def status(self) -> QueryStatus:
        """Returns the state of the query's sessions, and its totals."""
        with self._lock:
            brokers, topics = list(self._brokers.values()), sorted(self._topics)
        return QueryStatus(
            name=self.name,
            stream=self._stream,
            topics=tuple(topics),
            idle_s=self.idle_s(),
            sessions=tuple(broker.status() for broker in brokers),
            totals=self.stats(),
        )

    def close(self) -> None:
        """Close every session."""
        with self._lock:
            running = list(self._running)
            self._brokers.clear()
        for broker in running:  # all at once: each may wait for its reply in flight
            broker.request_close()
        for broker in running:
            broker.close()
