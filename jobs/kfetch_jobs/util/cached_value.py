"""A value that takes long to compute, for many callers at once.

When a caller asks, a thread computes the value, once at a time. A caller waits a limited time. If
the new value is late, the caller gets the one before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger("kfetch_jobs.web")

T = TypeVar("T")

_FRESH_S = 1.0
"""Callers within this time, in seconds, get the same value."""
_WAIT_S = 5.0
"""Half of the time that Prometheus waits for a scrape, in seconds."""


class CachedValue(Generic[T]):
    """The last value that ``compute`` has returned. Any thread may ask."""

    def __init__(self, compute: Callable[[], T], first: T, name: str) -> None:
        self._compute = compute
        self._name = name
        self._lock = threading.Lock()
        self._value = first
        self._started_s = self._finished_s = float("-inf")
        self._done = threading.Event()
        self._done.set()

    def get(self, wait_s: float = _WAIT_S, since_s: float = float("-inf")) -> T:
        """Returns a value that is at most a second old; an older one after ``wait_s`` seconds.

        Its computation started at ``since_s`` (of ``time.monotonic``) or later.
        """
        deadline = time.monotonic() + wait_s
        for _ in range(2):  # a running computation may have started too early
            with self._lock:
                if self._done.is_set() and self._stale(since_s):
                    self._done.clear()
                    self._start_thread()
            self._done.wait(max(0.0, deadline - time.monotonic()))
            if self._started_s >= since_s:
                break
        return self._value

    def _stale(self, since_s: float) -> bool:
        return self._started_s < since_s or time.monotonic() - self._finished_s >= _FRESH_S

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._renew, name=self._name, daemon=True).start()
        except RuntimeError:  # no memory, or the limit of threads
            self._done.set()
            raise

    def _renew(self) -> None:
        started_s = time.monotonic()
        try:
            self._value = self._compute()
        except Exception:
            log.exception("%s: the new value could not be calculated", self._name)
        finally:
            self._started_s, self._finished_s = started_s, time.monotonic()
            self._done.set()
