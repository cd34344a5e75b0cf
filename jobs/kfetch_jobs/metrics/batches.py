"""Counts the micro-batches that jobs commit, from their progress files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.progress.batch import Batch, parse_line
from kfetch_jobs.progress.follower import Follower

BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Bounds of the histogram of durations, in seconds: from a quick micro-batch to a stuck one."""
_BYTES_MAX = 8 << 20
"""The most that one update reads of a file. The next update reads the rest."""


@dataclass(slots=True)
class _Sums:
    rows: int = 0
    dead_letters: int = 0
    late_rows: int = 0
    seconds: float = 0.0
    by_bound: Counter[float] = field(default_factory=Counter)
    phases: dict[str, float] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        self.rows += batch.rows
        self.dead_letters += batch.dead_letters
        self.late_rows += batch.late_rows
        self.seconds += batch.seconds
        self.by_bound[next((b for b in BOUNDS_S if batch.seconds <= b), float("inf"))] += 1
        for phase, seconds in batch.phases.items():
            self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def add_samples(self, samples: SampleSet, job: str) -> None:
        bounds = (*BOUNDS_S, float("inf"))
        counts = accumulate(self.by_bound[bound] for bound in bounds)
        buckets = dict(zip(bounds, counts, strict=True))
        samples.put("kfetch_job_rows_total", self.rows, job_name=job)
        samples.put("kfetch_job_dead_letters_total", self.dead_letters, job_name=job)
        samples.put("kfetch_job_late_rows_total", self.late_rows, job_name=job)
        samples.histogram("kfetch_job_batch_duration_seconds", buckets, self.seconds, job_name=job)
        for phase, seconds in sorted(self.phases.items()):
            samples.put("kfetch_job_batch_phase_seconds_total", seconds, job_name=job, phase=phase)


class BatchMetrics:
    """Follows the progress files of a storage. Lines that exist already do not count."""

    def __init__(self, storage: Path) -> None:
        self._files = Follower(storage, from_now_on=True)
        self._sums: dict[str, _Sums] = {}
        self.damaged = 0
        """Lines that could not be parsed."""

    def update(self) -> None:
        """Read the lines that jobs have added since the last update."""
        for job, lines in self._files.read_added(_BYTES_MAX):
            sums = self._sums.setdefault(job, _Sums())
            for line in lines:
                try:
                    entry = parse_line(line)
                except ValueError:
                    self.damaged += 1
                    continue
                if isinstance(entry, Batch):
                    sums.add(entry)

    def add_samples(self, samples: SampleSet, job: str) -> None:
        """Add the samples of one job; zeros before its first micro-batch."""
        self._sums.get(job, _Sums()).add_samples(samples, job)
