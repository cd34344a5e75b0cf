"""Adds up fetch events from several threads."""

from __future__ import annotations

import threading
from dataclasses import asdict

from kfetch.fetch.events import FetchEvent
from kfetch.fetch.stats import ADD, FetchStats, counts


class Totals:
    """The running totals of a query or a broker. ``add`` is an event handler for any thread."""

    def __init__(self) -> None:
        self._sums = asdict(FetchStats())
        self._lock = threading.Lock()

    def add(self, event: FetchEvent) -> None:
        """Count one event."""
        with self._lock:
            for name, value in counts(event).items():
                self._sums[name] = ADD[name](self._sums[name], value)

    def stats(self) -> FetchStats:
        """Returns the totals until now."""
        with self._lock:
            return FetchStats(**self._sums)
