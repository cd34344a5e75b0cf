"""The state of all jobs and agents at one moment, and each job's curves.

A request takes a new snapshot, one at a time (``CachedValue``). If one part fails, the snapshot has
its error, and the other parts are complete. Nothing here waits for the supervisor's loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kfetch.admin.agents import Status
from kfetch_jobs.config import Project
from kfetch_jobs.errors import JobsError
from kfetch_jobs.metrics.fetches import find_agents
from kfetch_jobs.progress.batch import Batch, readable_entries
from kfetch_jobs.progress.follower import Follower
from kfetch_jobs.supervise.job_files import project_now
from kfetch_jobs.supervise.status import JobStatus, ProjectStatus
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import Run, Store
from kfetch_jobs.web.curve import WINDOWS, JobCurves

RUNS_MAX = 25
"""The most runs that a page lists."""
_SNAPSHOT_BYTES = 16 << 20
"""The most that one snapshot reads of all progress files: a second or two. The next one goes on."""
_FILE_BYTES_MIN = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state at one moment. Times are seconds since 1970."""

    at: float
    overview: ProjectStatus | None = None
    """None if the project or its database could not be read yet."""
    agents: tuple[Status, ...] = ()
    troubles: tuple[str, ...] = ()
    """A sentence for each part that failed."""
    reading: frozenset[str] = frozenset()
    """Jobs whose progress file is not read to its end yet, so their newest values are missing."""

    def job(self, name: str) -> JobStatus | None:
        """Returns the job of this name, or None."""
        jobs = self.overview.jobs if self.overview else ()
        return next((job for job in jobs if job.name == name), None)


class Observer:
    """Takes snapshots of a project, and keeps curves over time. Any thread may read them."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._files = Follower(project.storage)
        self._curves: dict[str, JobCurves] = {}
        self._lock = threading.Lock()
        self._overview: ProjectStatus | None = None
        self._agents: tuple[Status, ...] = ()

    def snapshot(self) -> Snapshot:
        """Take a snapshot. Only one thread at a time may call it."""
        now, troubles = time.time(), list[str]()
        with _part("jobs", troubles), Store.of(self._project.storage) as store:
            self._overview = read_status(project_now(self._project), store, now)
        with _part("micro-batches", troubles):
            self._follow(now)
        with _part("agents", troubles):
            self._agents = tuple(find_agents())
        return Snapshot(
            at=now,
            overview=self._overview,
            agents=self._agents,
            troubles=tuple(troubles),
            reading=frozenset(self._files.unfinished),
        )

    def _follow(self, now: float) -> None:
        files = len(self._files.unfinished) or len(self._overview.jobs if self._overview else ())
        for job, lines in self._files.read_added(
            max(_FILE_BYTES_MIN, _SNAPSHOT_BYTES // max(1, files))
        ):
            entries = list(readable_entries(lines))
            with self._lock:
                curves = self._curves.setdefault(job, JobCurves())
                for entry in entries:
                    curves.add(entry, now)

    def batches(self, job: str) -> list[Batch]:
        """Returns the last micro-batches, the newest first."""
        with self._lock:
            curves = self._curves.get(job)
            return list(curves.batches)[::-1] if curves else []

    def points(self, job: str, window: str, now: float) -> dict[str, list[float | None]]:
        """Returns the columns of a plot. Raises KeyError for an unknown window."""
        with self._lock:
            return self._curves.get(job, JobCurves()).windows[window].points(now)

    def rate(self, job: str, now: float, seconds: float = 60.0) -> float | None:
        """Returns rows per second over ``seconds``; None before the first micro-batch."""
        with self._lock:
            curves = self._curves.get(job)
            if not curves or not curves.batches:
                return None
            return curves.windows[next(iter(WINDOWS))].rate(now, seconds)

    def runs(self, job: str) -> tuple[list[Run], str]:
        """Returns the last runs, the newest first, and the error if they can't be read."""
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
        troubles.append(f"the page could not read the {name}: {error}")
