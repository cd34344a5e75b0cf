"""One look at everything that the metrics tell.

A part that can't be looked at (a database that is locked, files that nobody can read) costs its own
samples, never the others'. The supervisor's loop shares nothing with a look but its database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kfetch import __version__
from kfetch_jobs.config import Project
from kfetch_jobs.metrics.batches import Batches
from kfetch_jobs.metrics.fetches import Fetches
from kfetch_jobs.metrics.runs import Runs
from kfetch_jobs.metrics.table import Sheet
from kfetch_jobs.supervise.state_machine import Phase
from kfetch_jobs.supervise.status import JobStatus, ProjectStatus
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import Store

__all__ = ["Look", "Taken"]

log = logging.getLogger("kfetch_jobs.metrics")

_PARTS = ("jobs", "runs", "batches", "fetches")


class Taken(Collector):
    """The samples of one look, as prometheus_client writes them out."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """All families."""
        return self._families


class Look:
    """Takes samples, one look after the other. Counters begin when it is made."""

    def __init__(self, project: Project, stepped_s: Callable[[], float]) -> None:
        self._project = project
        self._stepped_s = stepped_s
        self._errors = dict.fromkeys(_PARTS, 0)
        self._overview: ProjectStatus | None = None
        self._batches = Batches(project.storage)
        self._fetches = Fetches()
        with Store.of(project.storage) as store:
            self._runs = Runs(store)
        self.take()
        self._fetches.begin()

    def take(self) -> Taken:
        """Look at every part."""
        sheet, now, began = Sheet(), time.time(), time.monotonic()
        with self._part("jobs"), Store.of(self._project.storage) as store:
            self._overview = read_status(self._project, store, now)
        with self._part("runs"), Store.of(self._project.storage) as store:
            self._runs.look(store)
        with self._part("batches"):
            self._batches.look()
        jobs = self._overview.jobs if self._overview else ()
        with self._part("fetches"):
            self._fetches.look(jobs)
        for job in jobs:
            _tell(sheet, job)
            self._runs.tell(sheet, job.name)
            self._batches.tell(sheet, job.name)
            self._fetches.tell(sheet, job)
        self._tell_self(sheet, now, time.monotonic() - began)
        return Taken(sheet.families())

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._errors[name] += 1
            log.warning("metrics: %s could not be looked at: %s", name, error)

    def _tell_self(self, sheet: Sheet, now: float, seconds: float) -> None:
        environment = self._project.environment_name or ""
        sheet.put("kfetch_supervisor_info", 1, version=__version__, environment=environment)
        since = self._overview.supervised_s if self._overview else None
        sheet.put("kfetch_supervisor_start_time_seconds", since)
        sheet.put("kfetch_supervisor_last_step_time_seconds", self._stepped_s())
        sheet.put("kfetch_metrics_collected_time_seconds", now)
        sheet.put("kfetch_metrics_collection_duration_seconds", seconds)
        errors = self._errors | {"batches": self._errors["batches"] + self._batches.damaged}
        for part, number in errors.items():
            sheet.put("kfetch_metrics_collection_errors_total", number, part=part)


def _tell(sheet: Sheet, job: JobStatus) -> None:
    """What the read model knows of a job."""
    name = job.name
    sheet.put("kfetch_job_enabled", job.enabled, job_name=name)
    sheet.put("kfetch_job_file_valid", not job.mistake, job_name=name)
    sheet.put("kfetch_job_healthy", not job.unhealthy, job_name=name)
    for phase in Phase:
        sheet.put("kfetch_job_state", job.phase is phase, job_name=name, state=phase)
    sheet.put("kfetch_job_state_start_time_seconds", job.since_s, job_name=name)
    sheet.put("kfetch_job_next_run_time_seconds", job.due_s, job_name=name)
    sheet.put("kfetch_job_consecutive_failures", job.failures, job_name=name)
    sheet.put("kfetch_job_lag_offsets", job.lag, job_name=name)
    sheet.put("kfetch_job_lag_seconds", None if job.lag is None else job.lag_s, job_name=name)
    sheet.put("kfetch_job_last_activity_time_seconds", job.pulse_s, job_name=name)
    sheet.put("kfetch_job_last_batch_id", job.batch, job_name=name)
