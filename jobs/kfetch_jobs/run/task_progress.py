"""Whether Spark's tasks finish: the sign of life of a micro-batch that takes long."""

from __future__ import annotations

from typing import Any, Protocol


class StatusTracker(Protocol):
    """The part of Spark's status tracker that this module needs."""

    def getActiveStageIds(self) -> list[int]:
        """Returns the stages that run now."""

    def getStageInfo(self, stageId: int, /) -> Any:
        """Returns the numbers of a stage; None if Spark has forgotten it."""


class TaskProgress:
    """Compares the active stages of a Spark session with those of the last look."""

    def __init__(self, tracker: StatusTracker) -> None:
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
        from py4j.protocol import Py4JError

        try:
            stages = self._tracker.getActiveStageIds()
            infos = {stage: self._tracker.getStageInfo(stage) for stage in stages}
        except Py4JError:  # the session ends; the query has the error
            return self._finished
        return {stage: info.numCompletedTasks for stage, info in infos.items() if info}
