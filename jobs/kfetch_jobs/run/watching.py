"""What a run looks at every two seconds while its query runs: its brokers, and Spark's tasks.

The run's log gets lines about brokers that cannot be reached. Finished tasks are the sign of life
of a micro-batch that takes long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError

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


class TaskProgress:
    """Compares the active stages of a Spark session with those of the last look."""

    def __init__(self, tracker: Any) -> None:
        """``tracker`` is Spark's StatusTracker."""
        self._tracker = tracker
        self._finished: dict[int, int] = {}
        """Finished tasks by active stage."""

    def advanced(self) -> bool:
        """Returns whether a task or a stage has finished since the last call.

        Spark tries a failed task again a few times only. So a task that never ends, or a driver
        that hangs, soon shows no progress.
        """
        before, self._finished = self._finished, self._finished_now()
        ended = before.keys() - self._finished.keys()
        return bool(ended) or any(
            finished > before.get(stage, 0) for stage, finished in self._finished.items()
        )

    def _finished_now(self) -> dict[int, int]:

        try:
            stages = self._tracker.getActiveStageIds()
            infos = {stage: self._tracker.getStageInfo(stage) for stage in stages}
        except Py4JError:  # the session ends; the query has the error
            return self._finished
        return {stage: info.numCompletedTasks for stage, info in infos.items() if info}
