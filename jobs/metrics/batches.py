"""Micro-batches that were committed while this looked, from the jobs' progress files.

Each look reads what was added since the one before. A file that is full is put aside
(``jobs.progress``), and a look follows it there once; it is full after some ten thousand
micro-batches.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from jobs import progress
from jobs.metrics.table import Sheet
from jobs.progress import Batch

__all__ = ["BOUNDS_S", "Batches"]

BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Of the histogram of durations: from a quick micro-batch to one that needs a person."""
_BYTES_MAX = 8 << 20
"""Read of one file in one look; the rest in the next."""


@dataclass(slots=True)
class _Sums:
    rows: int = 0
    seconds: float = 0.0
    by_bound: Counter[float] = field(default_factory=Counter)
    phases: dict[str, float] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        self.rows += batch.rows
        self.seconds += batch.seconds
        self.by_bound[next((b for b in BOUNDS_S if batch.seconds <= b), float("inf"))] += 1
        for phase, seconds in batch.phases.items():
            self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def tell(self, sheet: Sheet, job: str) -> None:
        bounds = (*BOUNDS_S, float("inf"))
        counts = accumulate(self.by_bound[bound] for bound in bounds)
        buckets = dict(zip(bounds, counts, strict=True))
        sheet.put("kfetch_job_rows_total", self.rows, job_name=job)
        sheet.histogram("kfetch_job_batch_duration_seconds", buckets, self.seconds, job_name=job)
        for phase, seconds in sorted(self.phases.items()):
            sheet.put("kfetch_job_batch_phase_seconds_total", seconds, job_name=job, phase=phase)


@dataclass(slots=True)
class _File:
    """How far a file was read."""

    inode: int
    position: int


class Batches:
    """Follows the progress files of a storage, from what they hold now on."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._files: dict[str, _File] = {}
        self._sums: dict[str, _Sums] = {}
        self.damaged = 0
        """Lines that could not be read."""
        for path in self._storage.glob("*/progress.jsonl"):
            with suppress(OSError):
                told = path.stat()
                self._files[path.parent.name] = _File(told.st_ino, told.st_size)

    def look(self) -> None:
        """Read what was added."""
        for path in self._storage.glob("*/progress.jsonl"):
            sums = self._sums.setdefault(path.parent.name, _Sums())
            for line in self._added(path):
                try:
                    batch = progress.parsed(line)
                except (ValueError, TypeError, KeyError):
                    self.damaged += 1
                    continue
                if batch is not None:
                    sums.add(batch)

    def tell(self, sheet: Sheet, job: str) -> None:
        """The samples of one job; zeros before its first micro-batch."""
        self._sums.get(job, _Sums()).tell(sheet, job)

    def _added(self, path: Path) -> Iterator[str]:
        try:
            inode = path.stat().st_ino
        except OSError:
            return  # just being put aside
        file = self._files.setdefault(path.parent.name, _File(inode, 0))
        if file.inode != inode:
            with suppress(OSError):
                yield from _lines(progress.put_aside(path), file)
            file.inode, file.position = inode, 0
        with suppress(OSError):
            yield from _lines(path, file)


def _lines(path: Path, place: _File) -> list[str]:
    """Whole lines from a place on; it moves behind them. No lines if another file stands there."""
    with path.open("rb") as file:
        told = os.fstat(file.fileno())
        if told.st_ino != place.inode:
            return []
        file.seek(place.position if place.position <= told.st_size else 0)
        whole, newline, rest = file.read(_BYTES_MAX).rpartition(b"\n")
        place.position = file.tell() - len(rest)
    return (whole + newline).decode(errors="replace").splitlines(keepends=True)
