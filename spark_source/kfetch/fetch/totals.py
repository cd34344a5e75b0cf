"""Adds up fetch events from several threads."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from kfetch.fetch.events import FetchEvent
from kfetch.fetch.stats import FetchStats, counts, kinds
from kfetch.topic_counts import TopicCounts, added


class Totals:
    """The running totals of a query or a broker. ``add`` is an event handler for any thread."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._kinds: dict[str, TopicCounts] = {}
        self._lock = threading.Lock()

    def add(self, event: FetchEvent) -> None:
        """Count one event."""
        with self._lock:
            self._sums.update(counts(event))
            for name, counted in kinds(event).items():
                self._kinds[name] = added(self._kinds.get(name, {}), counted)

    def stats(self) -> FetchStats:
        """Returns the totals until now."""
        with self._lock:
            sums: dict[str, Any] = {**self._sums, **self._kinds}
        return FetchStats(**sums)
