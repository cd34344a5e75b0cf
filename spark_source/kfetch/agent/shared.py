"""What an agent's tasks share of one query: a thread with one session per broker, and totals."""

from __future__ import annotations

import logging
import threading
import time

from kfetch.agent.broker_thread import BrokerThread
from kfetch.agent.budget import Budget
from kfetch.agent.channel import QueryStatus, Read
from kfetch.fetch import events, stats
from kfetch.model import Broker
from kfetch.options import SourceOptions

log = logging.getLogger(__name__)


class SharedQuery:
    """The lanes of one query on this executor."""

    def __init__(self, name: str, options: SourceOptions, budget: Budget) -> None:
        self.name = name
        self.options = options
        self._budget = budget
        self._lanes: dict[Broker, BrokerThread] = {}
        self._lock = threading.Lock()
        self._readers = 0
        self._stream = ""
        self._topics: set[str] = set()
        self._idle_since = time.monotonic()
        self._totals = stats.Totals()
        """What is counted for the whole query, not for a broker."""
        self._writing = threading.Lock()

    def lane(self, broker: Broker) -> BrokerThread:
        """The broker's thread, started when first needed."""
        with self._lock:
            if broker not in self._lanes:
                lane = BrokerThread(self.name, broker, self.options, self._budget, self.tell)
                lane.start()  # raises where threads are short: then the next task tries again
                self._lanes[broker] = lane
            return self._lanes[broker]

    def enter(self, request: Read) -> None:
        """A task begins to read."""
        if request.stream != self._stream:
            log.info("query %s is Spark's %s", self.name[:8], request.stream)
        with self._lock:
            self._readers += 1
            self._stream = request.stream
            self._topics.update(item.tp.topic for item in request.ranges)

    def tell(self, fact: events.Fact) -> None:
        """A sink for what is counted for the whole query."""
        self._totals.add(fact)
        events.story(fact)

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
            lanes = list(self._lanes.values())
        return stats.total(lane.stats() for lane in lanes) + self._totals.stats()

    def status(self) -> QueryStatus:
        """How its sessions stand, and what they have cost."""
        with self._lock:
            lanes, topics = list(self._lanes.values()), sorted(self._topics)
        return QueryStatus(
            name=self.name,
            stream=self._stream,
            topics=tuple(topics),
            idle_s=self.idle_s(),
            sessions=tuple(lane.status() for lane in lanes),
            totals=self.stats(),
        )

    def close(self) -> None:
        """Close every session."""
        with self._lock:
            lanes = list(self._lanes.values())
            self._lanes.clear()
        for lane in lanes:  # all at once: each may wait for its reply in flight
            lane.ask_to_close()
        for lane in lanes:
            lane.close()
