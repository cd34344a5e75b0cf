"""What the page has seen at one moment: all jobs, the agents, and each job's curves.

A look is taken when somebody asks, one at a time (``util.newest``). A part that can't be looked at
says so and leaves the others as they are; nothing here waits for the supervisor's loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kfetch.agent.channel import Status
from kfetch_jobs.config import Project
from kfetch_jobs.errors import JobsError
from kfetch_jobs.looks import agents
from kfetch_jobs.progress import history as progress
from kfetch_jobs.progress.follow import Follower
from kfetch_jobs.progress.history import Batch
from kfetch_jobs.supervise.store import Run, Store
from kfetch_jobs.supervise.view import JobView, Overview, overview
from kfetch_jobs.web.curve import WINDOWS, JobCurves

__all__ = ["RUNS_MAX", "Observer", "Snapshot"]

RUNS_MAX = 25
"""Shown of a job."""
_SNAPSHOT_BYTES = 16 << 20
"""Read of all progress files together in one look: a second or two. The rest in the next."""
_FILE_BYTES_MIN = 256 << 10
_AGENT_TIMEOUT_S = 0.5
_ALL_AGENTS_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look. Times are seconds since 1970."""

    at: float
    overview: Overview | None = None
    """None if the project or its database could not be read yet."""
    agents: tuple[Status, ...] = ()
    troubles: tuple[str, ...] = ()
    """What could not be looked at, and why."""
    reading: frozenset[str] = frozenset()
    """Jobs whose history is not read to its end yet: their newest figures are still to come."""

    def job(self, name: str) -> JobView | None:
        """One job, if there is such a one."""
        jobs = self.overview.jobs if self.overview else ()
        return next((job for job in jobs if job.name == name), None)


class Observer:
    """Looks at a project, and keeps what a look alone can't show: time. Any thread may ask."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._files = Follower.from_the_start(project.storage)
        self._curves: dict[str, JobCurves] = {}
        self._lock = threading.Lock()
        self._overview: Overview | None = None
        self._agents: tuple[Status, ...] = ()

    def snapshot(self) -> Snapshot:
        """See all that is new. One thread at a time."""
        now, troubles = time.time(), list[str]()
        with _part("jobs", troubles), Store.of(self._project.storage) as store:
            self._overview = overview(self._project, store, now)
        with _part("micro-batches", troubles):
            self._follow(now)
        with _part("agents", troubles):
            self._agents = tuple(agents.find(_AGENT_TIMEOUT_S, _ALL_AGENTS_TIMEOUT_S))
        return Snapshot(
            at=now,
            overview=self._overview,
            agents=self._agents,
            troubles=tuple(troubles),
            reading=frozenset(self._files.unfinished),
        )

    def _follow(self, now: float) -> None:
        files = len(self._files.unfinished) or len(self._overview.jobs if self._overview else ())
        for job, lines in self._files.added(max(_FILE_BYTES_MIN, _SNAPSHOT_BYTES // max(1, files))):
            batches = [batch for line in lines for batch in progress.whole(line)]
            with self._lock:
                curves = self._curves.setdefault(job, JobCurves())
                for batch in batches:
                    curves.add(batch, now)

    def batches(self, job: str) -> list[Batch]:
        """The last micro-batches, the newest first."""
        with self._lock:
            curves = self._curves.get(job)
            return list(curves.batches)[::-1] if curves else []

    def points(self, job: str, window: str, now: float) -> dict[str, list[float | None]]:
        """Columns of a plot; KeyError for a window that there is not."""
        with self._lock:
            return self._curves.get(job, JobCurves()).windows[window].points(now)

    def rate(self, job: str, now: float, seconds: float = 60.0) -> float | None:
        """Rows per second in the last minute; None before the first micro-batch."""
        with self._lock:
            curves = self._curves.get(job)
            if not curves or not curves.batches:
                return None
            return curves.windows[next(iter(WINDOWS))].rate(now, seconds)

    def runs(self, job: str) -> tuple[list[Run], str]:
        """The last runs, the newest first; or why they can't be told."""
        try:
            with Store.of(self._project.storage) as store:
                return store.history(job, RUNS_MAX), ""
        except JobsError as error:
            return [], str(error)


@contextmanager
def _part(name: str, troubles: list[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        troubles.append(f"{name} could not be looked at: {error}")
