"""Counts runs that start and end, from the supervisor's database.

The database deletes old runs, so a count of its rows would fall. This module counts each run once.
"""

from __future__ import annotations

from collections import Counter

from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.store import Run, Store


class RunMetrics:
    """Follows the runs of a store. Runs that it has already do not count as started."""

    def __init__(self, store: Store) -> None:
        self._floor = 0
        """This run and all before it are counted in full."""
        self._counted: dict[int, ExitKind | None] = {}
        """Runs behind these, with their ends as far as they are counted."""
        self._begins: Counter[str] = Counter()
        self._ends: Counter[tuple[str, ExitKind]] = Counter()
        self.update(store)
        self.reset()

    def reset(self) -> None:
        """Set all counters to zero."""
        self._begins.clear()
        self._ends.clear()

    def update(self, store: Store) -> None:
        """Count new starts and ends."""
        runs = store.runs_after(self._floor)
        for run in runs:
            self._count(run)
        if runs:
            unfinished = [run.id for run in runs if run.kind is None]
            self._floor = min(unfinished) - 1 if unfinished else runs[-1].id
            self._counted = {run.id: run.kind for run in runs if run.id > self._floor}

    def _count(self, run: Run) -> None:
        if run.id not in self._counted:
            self._begins[run.job] += 1
        if run.kind is not None and self._counted.get(run.id) is None:
            self._ends[run.job, run.kind] += 1

    def add_samples(self, samples: SampleSet, job: str) -> None:
        """Add the samples of one job. A kind without an end is 0, so its first rise shows."""
        samples.put("kfetch_job_runs_started_total", self._begins[job], job_name=job)
        for kind in ExitKind:
            samples.put(
                "kfetch_job_runs_ended_total", self._ends[job, kind], job_name=job, kind=kind
            )
