"""A file with the brokers that a query cannot reach now: the option ``kfetch.brokerReport``.

    {"at": 1795347982.1,
     "unreachable": [{"name": "broker 1 (h:9092)", "since": 1795347971.0, "cause": "…"}],
     "backlog": {"behind": 3000, "behind_since": 1795347975.2, "planned": 2000, …}}

The driver writes the file at its start, at each change, and once a second while brokers answer. So
tools for monitoring see within seconds what the query's error would say only after minutes of
retries. ``backlog`` (``backlog.py``) has the records that wait while a micro-batch runs. It is null
before the first plan. Times are seconds since 1970.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path

from kfetch.fetch.totals import write

EVERY_BROKER = "every broker"
"""The key of an outage of the whole cluster. It says all that the other outages say."""
_PERIOD_S = 1.0
_SHARE = 0.02
"""The backlog of 100,000 partitions takes some 50 ms. It may take this share of one CPU."""


class BrokerReport:
    """The report of one query. Any thread may change it. Without a path it writes nothing."""

    def __init__(self, path: str = "", now: Callable[[], float] = time.time) -> None:
        self._path = Path(path) if path else None
        self._now = now
        self._lock = threading.Lock()
        self._unreachable: dict[Hashable, dict[str, object]] = {}
        self._backlog: Mapping[str, object] | None = None
        self._due_s = 0.0
        """When the backlog is due again: monotonic seconds."""
        self._write()  # an earlier run may have left its own

    def lost(self, key: Hashable, name: str, cause: str) -> None:
        """Note that something is unreachable. ``name`` is for people; the first cause stays."""
        if key in self._unreachable:
            return
        with self._lock:
            entry = {"name": name, "since": self._now(), "cause": cause}
            if self._unreachable.setdefault(key, entry) is entry:
                self._write()

    def answered(self, key: Hashable) -> None:
        """Note that it answers again, or is needed no more."""
        if key not in self._unreachable:  # almost always
            return
        with self._lock:
            if self._unreachable.pop(key, None) is not None:
                self._write()

    def refresh(self, backlog: Callable[[], Mapping[str, object] | None]) -> None:
        """Write the present backlog, if that is due."""
        if self._path is None or time.monotonic() < self._due_s:
            return
        with self._lock:
            began_s = time.monotonic()
            if began_s < self._due_s:
                return
            self._backlog = backlog()
            self._write()
            took_s = time.monotonic() - began_s
            self._due_s = began_s + max(_PERIOD_S, took_s / _SHARE)

    def _listed(self) -> list[dict[str, object]]:
        if EVERY_BROKER not in self._unreachable:
            return list(self._unreachable.values())
        first = next(iter(self._unreachable.values()))
        return [self._unreachable[EVERY_BROKER] | {"since": first["since"]}]

    def _write(self) -> None:
        if self._path is not None:
            known = {"unreachable": self._listed(), "backlog": self._backlog}
            write(self._path, {"at": self._now(), **known})
