"""Collects all metrics.

If one part fails, as with a locked database or an unreadable file, only its samples are missing.
The collector and the supervisor's loop share the database, and nothing else.
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
from kfetch_jobs.metrics.batches import BatchMetrics
from kfetch_jobs.metrics.fetches import FetchMetrics
from kfetch_jobs.metrics.runs import RunMetrics
from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.supervise.job_files import project_now
from kfetch_jobs.supervise.job_state import Phase
from kfetch_jobs.supervise.status import JobStatus, ProjectStatus
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import Store

log = logging.getLogger("kfetch_jobs.metrics")

_GAP_S = 60.0
"""After a longer gap between two collections, nobody knows what a host counted as the leader."""

_PARTS = ("jobs", "runs", "batches", "fetches")


class CollectedMetrics(Collector):
    """The samples of one collection, in the form that prometheus_client writes out."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Returns all metric families."""
        return self._families


class MetricsCollector:
    """Collects samples, one collection after the other. Counters start at zero when it is made.

    ``stepped_s`` returns the time of the supervisor loop's last step, in seconds since 1970.
    """

    def __init__(self, project: Project, stepped_s: Callable[[], float]) -> None:
        self._project = project
        self._stepped_s = stepped_s
        self._errors = dict.fromkeys(_PARTS, 0)
        self._overview: ProjectStatus | None = None
        self._waits = False
        """Whether this host did not lead at the last collection."""
        self._collected_at = 0.0
        """When the last collection began: monotonic."""
        self._batches = BatchMetrics(project.storage)
        self._fetches = FetchMetrics()
        with Store.of(project.storage) as store:
            self._runs = RunMetrics(store)
        self.collect_now()
        self._fetches.reset()

    def collect_now(self) -> CollectedMetrics:
        """Collect the samples of every part."""
        samples, now, began = SampleSet(), time.time(), time.monotonic()
        with self._part("jobs"), Store.of(self._project.storage) as store:
            self._overview = read_status(project_now(self._project), store, now)
        with self._part("runs"), Store.of(self._project.storage) as store:
            self._runs.update(store)
        with self._part("batches"):
            self._batches.update()
        overview = self._overview
        jobs = overview.jobs if overview else ()
        with self._part("fetches"):
            self._fetches.update(jobs)
        waits = overview is not None and overview.waits_here
        if waits or (self._waits and began - self._collected_at > _GAP_S):
            self._runs.reset()  # the leader counts them
            self._fetches.reset()
        self._waits, self._collected_at = waits, began
        for job in () if waits else jobs:
            _add_job_samples(samples, job)
            self._runs.add_samples(samples, job.name)
            self._batches.add_samples(samples, job.name)
            self._fetches.add_samples(samples, job)
        self._add_own_samples(samples, now, time.monotonic() - began)
        return CollectedMetrics(samples.families())

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._errors[name] += 1
            log.warning("metrics: %s could not be collected: %s", name, error)

    def _add_own_samples(self, samples: SampleSet, now: float, seconds: float) -> None:
        environment = self._project.environment_name or ""
        samples.put("kfetch_supervisor_info", 1, version=__version__, environment=environment)
        since = self._overview.supervised_s if self._overview else None
        samples.put("kfetch_supervisor_start_time_seconds", since)
        samples.put("kfetch_supervisor_last_step_time_seconds", self._stepped_s())
        lead = self._overview.lead if self._overview else None
        samples.put("kfetch_supervisor_leads", lead is None or lead.here)
        samples.put("kfetch_metrics_collected_time_seconds", now)
        samples.put("kfetch_metrics_collection_duration_seconds", seconds)
        errors = self._errors | {"batches": self._errors["batches"] + self._batches.damaged}
        for part, number in errors.items():
            samples.put("kfetch_metrics_collection_errors_total", number, part=part)


def _add_job_samples(samples: SampleSet, job: JobStatus) -> None:
    """Add the samples that come from the job's view."""
    name = job.name
    samples.put("kfetch_job_enabled", job.enabled, job_name=name)
    samples.put("kfetch_job_file_valid", not job.mistake, job_name=name)
    samples.put("kfetch_job_orphan", job.orphan, job_name=name)
    samples.put("kfetch_job_healthy", not job.unhealthy, job_name=name)
    for phase in Phase:
        samples.put("kfetch_job_state", job.phase is phase, job_name=name, state=phase)
    samples.put("kfetch_job_state_start_time_seconds", job.since_s, job_name=name)
    samples.put("kfetch_job_next_run_time_seconds", job.due_s, job_name=name)
    samples.put("kfetch_job_consecutive_failures", job.failures, job_name=name)
    if job.lag_is_known:
        samples.put("kfetch_job_lag_offsets", job.lag, job_name=name)
        samples.put("kfetch_job_lag_seconds", job.lag_s, job_name=name)
    samples.put("kfetch_job_last_activity_time_seconds", job.pulse_s, job_name=name)
    running = job.phase is not None and job.phase.has_process
    unreachable = len(job.unreachable) if running else None
    samples.put("kfetch_job_unreachable_brokers", unreachable, job_name=name)
    if space := job.checkpoint_space:
        samples.put("kfetch_job_checkpoint_free_bytes", space.free_bytes, job_name=name)
        samples.put("kfetch_job_checkpoint_size_bytes", space.size_bytes, job_name=name)
    samples.put("kfetch_job_last_batch_id", job.batch, job_name=name)
