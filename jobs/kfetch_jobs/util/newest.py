"""The newest of something that takes a while to find out, for many who ask at once.

It is found out in a thread of its own, once at a time, when somebody asks; whoever asks waits a
bounded time and gets the one before if the new one is not there by then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Newest"]

log = logging.getLogger("kfetch_jobs.web")

T = TypeVar("T")

_FRESH_S = 1.0
"""Two who ask within this get the same one."""
_WAIT_S = 5.0
"""Half of what Prometheus waits for a scrape."""


class Newest(Generic[T]):
    """What ``take`` gave the last time. Any thread may ask."""

    def __init__(self, take: Callable[[], T], first: T, name: str) -> None:
        self._take = take
        self._name = name
        self._lock = threading.Lock()
        self._newest = first
        self._begun_s = self._taken_s = float("-inf")
        self._done = threading.Event()
        self._done.set()

    def get(self, wait_s: float = _WAIT_S, since_s: float = float("-inf")) -> T:
        """One that is a second old at most, and begun at ``since_s`` (of ``time.monotonic``) or
        later; an older one if it is not there in time."""
        deadline = time.monotonic() + wait_s
        for _ in range(2):  # one that is under way may have begun too early
            with self._lock:
                if self._done.is_set() and self._stale(since_s):
                    self._done.clear()
                    threading.Thread(target=self._renew, name=self._name, daemon=True).start()
            self._done.wait(max(0.0, deadline - time.monotonic()))
            if self._begun_s >= since_s:
                break
        return self._newest

    def _stale(self, since_s: float) -> bool:
        return self._begun_s < since_s or time.monotonic() - self._taken_s >= _FRESH_S

    def _renew(self) -> None:
        begun_s = time.monotonic()
        try:
            self._newest = self._take()
        except Exception:
            log.exception("%s: no new figures could be taken", self._name)
        finally:
            self._begun_s, self._taken_s = begun_s, time.monotonic()
            self._done.set()
