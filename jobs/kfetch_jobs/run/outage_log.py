"""Lines in a run's log about brokers that it cannot reach, and about their return."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kfetch_jobs.progress.broker_report import ELECTION_S, Unreachable

log = logging.getLogger("kfetch_jobs.run")


class OutageLog:
    """Compares the brokers that a run cannot reach with those of the last look."""

    def __init__(self, read: Callable[[], tuple[Unreachable, ...]]) -> None:
        self._read = read
        self._logged: dict[str, Unreachable] = {}

    def look(self, now: float) -> None:
        """Log what is new since the last look. ``now`` is in seconds since 1970."""
        unreachable = {one.name: one for one in self._read()}
        for name, one in unreachable.items():
            if name not in self._logged and now - one.since_at >= ELECTION_S:
                log.warning("%s", one)
                self._logged[name] = one
        if any(one.is_whole_cluster for one in unreachable.values()):
            return  # single brokers are not listed, and still away
        for name in self._logged.keys() - unreachable.keys():
            lasted_s = now - self._logged.pop(name).since_at
            log.warning("%s can be reached again, after %.0f s", name, lasted_s)
