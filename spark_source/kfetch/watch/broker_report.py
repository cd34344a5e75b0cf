"""A file with the brokers that a query cannot reach now: the option ``kfetch.brokerReport``.

    {"at": 1795347982.1,
     "unreachable": [{"name": "broker 1 (h:9092)", "since": 1795347971.0, "cause": "…"}]}

The driver writes the file at its start and at each change. So tools for monitoring see within
seconds what the query's error would say only after minutes of retries. Times are seconds since
1970.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable
from pathlib import Path

__all__ = ["BrokerReport"]

log = logging.getLogger(__name__)


class BrokerReport:
    """The report of one query. Any thread may change it. Without a path it writes nothing."""

    def __init__(self, path: str = "", now: Callable[[], float] = time.time) -> None:
        self._path = Path(path) if path else None
        self._now = now
        self._lock = threading.Lock()
        self._unreachable: dict[Hashable, dict[str, object]] = {}
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

    def _write(self) -> None:
        if self._path is None:
            return
        document = {"at": self._now(), "unreachable": list(self._unreachable.values())}
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(document))
            draft.replace(self._path)
        except OSError as cause:  # a full disk must not fail a query
            log.warning("kfetch: %s can't be written: %s", self._path, cause)
