"""Throughput and lag over time, from what the producer and the job wrote down.

Times are seconds since 1970 on the way in, and seconds since the first event on the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kfetch_jobs.demo.summary import Kill
from kfetch_jobs.progress.history import Batch

__all__ = ["Curves", "Interval", "curves"]

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Interval:
    """A time in which a number of rows arrived: drawn as a bar, whose area is the rows."""

    start: float
    end: float
    rows: int

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / (self.end - self.start) if self.end > self.start else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """All that the picture shows."""

    produced: list[Interval]
    landed: list[Interval]
    lag: Points
    killed: float
    restarted: float
    recovered: float
    """When the first batch after the crash was in the table."""


def curves(produced: Sequence[tuple[float, int]], batches: Sequence[Batch], kill: Kill) -> Curves:
    """The picture's lines; what landed before the first event of the stream is left out."""
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
    """A batch's rows arrived since the batch before it, or since the job's restart."""
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
    """Produced minus landed, at every moment that one of the two changed."""
    changes = [(at, total, 0) for at, total in produced]
    changes += [(batch.finished, 0, batch.end) for batch in batches]
    made = there = 0
    points: Points = []
    for at, total, end in sorted(changes):
        points.append((at, max(0, made - there)))  # a step, not a slope
        made, there = max(made, total), max(there, end)
        points.append((at, max(0, made - there)))
    return [(at, lag) for at, lag in points if at >= produced[0][0]][1:]
