"""Throughput and lag over time, from the producer's counts and the job's progress file.

Arguments have times in seconds since 1970. Results have seconds since the first event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kfetch_jobs.demo.summary import Kill
from kfetch_jobs.progress.batch import Batch

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of time in which rows arrived. The chart draws a bar whose area is the rows."""

    start: float
    end: float
    rows: int

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / (self.end - self.start) if self.end > self.start else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The values that the picture shows."""

    produced: list[Interval]
    landed: list[Interval]
    lag: Points
    killed: float
    restarted: float
    recovered: float
    """When the first batch after the crash was in the table."""


def curves(produced: Sequence[tuple[float, int]], batches: Sequence[Batch], kill: Kill) -> Curves:
    """Returns the picture's lines. Rows that landed before the steady stream are left out."""
    zero = produced[0][0]
    landed = _landed(batches, zero, kill.restarted)
    after = [batch.finished for batch in batches if batch.finished > kill.restarted]
    return Curves(
        produced=[_shifted(interval, zero) for interval in _produced(produced)],
        landed=[_shifted(interval, zero) for interval in landed],
        lag=[(at - zero, lag) for at, lag in _lag(produced, batches)],
        killed=kill.at - zero,
        restarted=kill.restarted - zero,
        recovered=min(after, default=kill.restarted) - zero,
    )


def _shifted(interval: Interval, zero: float) -> Interval:
    return Interval(interval.start - zero, interval.end - zero, interval.rows)


def _produced(points: Sequence[tuple[float, int]], width_s: float = 1.0) -> list[Interval]:
    intervals: list[Interval] = []
    start, count = points[0]
    for at, total in points[1:]:
        if at - start >= width_s or (at, total) == points[-1]:
            intervals.append(Interval(start, at, total - count))
            start, count = at, total
    return intervals


def _landed(batches: Sequence[Batch], zero: float, restarted: float) -> list[Interval]:
    """Spreads a micro-batch's rows from the end of the one before, or from the job's restart."""
    intervals: list[Interval] = []
    before, count = zero, 0
    for batch in batches:
        if batch.finished > zero:
            start = restarted if before < restarted <= batch.finished else before
            intervals.append(Interval(start, batch.finished, batch.end - count))
            before = batch.finished
        count = batch.end
    return intervals


def _lag(produced: Sequence[tuple[float, int]], batches: Sequence[Batch]) -> Points:
    """Produced minus landed rows, at each moment at which one of the two changed."""
    changes = [(at, total, 0) for at, total in produced]
    changes += [(batch.finished, 0, batch.end) for batch in batches]
    produced_rows = landed_rows = 0
    points: Points = []
    for at, total, end in sorted(changes):
        points.append((at, max(0, produced_rows - landed_rows)))  # a step, not a slope
        produced_rows, landed_rows = max(produced_rows, total), max(landed_rows, end)
        points.append((at, max(0, produced_rows - landed_rows)))
    return [(at, lag) for at, lag in points if at >= produced[0][0]][1:]
