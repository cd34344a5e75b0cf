"""The demo's throughput and lag over time, and their curves as lines of text. It only computes.

The producer's counts and the job's progress file have times in seconds since 1970. Curves have
seconds since the first event.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kfetch_jobs.demo.summary import Kill
from kfetch_jobs.progress.batch import Batch

_BLOCKS = " ▁▂▃▄▅▆▇█"
_NAMES = ("produced", "in Delta", "lag")
_LABEL_WIDTH = 10

Points = list[tuple[float, float]]
"""Pairs of a time and a number, in the order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The values that the plot shows."""

    produced: Points
    """Rows so far."""
    landed: Points
    """Rows so far. They grow evenly between two points."""
    killed: float
    recovered: float
    """When the first batch after the crash was in the table."""


def curves(produced: Sequence[tuple[float, int]], batches: Sequence[Batch], kill: Kill) -> Curves:
    """Returns the plot's values. Rows that landed before the steady stream are left out."""
    zero = produced[0][0]
    after = [batch.finished for batch in batches if batch.finished > kill.restarted]
    return Curves(
        produced=[(at - zero, rows) for at, rows in produced],
        landed=[(at - zero, rows) for at, rows in _landed(batches, zero, kill.restarted)],
        killed=kill.at - zero,
        recovered=min(after, default=kill.restarted) - zero,
    )


def _landed(batches: Sequence[Batch], zero: float, restarted: float) -> Points:
    """Spreads a micro-batch's rows from the end of the one before, or from the job's restart."""
    points: Points = [(zero, max((b.end for b in batches if b.finished <= zero), default=0))]
    for batch in batches:
        before, rows = points[-1]
        if before < restarted <= batch.finished:
            points.append((restarted, rows))
        if batch.finished > zero:
            points.append((batch.finished, batch.end))
    return points


def plot(curves: Curves, width: int = 50) -> tuple[str, ...]:
    """Returns a line for each curve, then the time axis and what happened when.

    Each character is one ``width``-th of the time from the first event to the last row. Its height
    is relative to the curve's highest value, which stands at the end of the line.
    """
    end = _end(curves)
    produced, landed = (_rates(points, end, width) for points in (curves.produced, curves.landed))
    lag = _lags(curves, end, width)
    units = ("rows/s", "rows/s", "records")
    lines = [
        f"{name:<{_LABEL_WIDTH}}{_line(values)}  up to {max(values):,.0f} {unit}"
        for name, values, unit in zip(_NAMES, (produced, landed, lag), units, strict=True)
    ]
    return (*lines, *_time_axis(curves, end, width))


def _end(curves: Curves) -> float:
    return max([1.0, *(at for at, _ in (*curves.produced, *curves.landed))])


def _rates(points: Points, end: float, width: int) -> list[float]:
    """The mean rate in each column, in rows per second. The rows add up."""
    step = end / width
    rows = [_rows_at(points, column * step) for column in range(width + 1)]
    return [(after - before) / step for before, after in pairwise(rows)]


def _rows_at(points: Points, at: float) -> float:
    """The rows at a time, on the line between the two points around it."""
    index = bisect(points, at, key=_time)
    if index in (0, len(points)):
        return points[index - 1 if index else 0][1] if points else 0.0
    (start, before), (end, after) = points[index - 1 : index + 1]
    return before + (after - before) * (at - start) / (end - start)


def _lags(curves: Curves, end: float, width: int) -> list[float]:
    """The highest lag in each column, in records. It falls in a step when a micro-batch lands."""
    step = end / width
    moments = [[(column + 1) * step] for column in range(width)]
    for at, _ in curves.landed:
        moments[min(width - 1, int(at / step))].append(at)
    return [max(_lag(curves, at) for at in column) for column in moments]


def _lag(curves: Curves, at: float) -> float:
    """Rows that were produced until a time, minus those that had landed before it."""
    produced = _rows_of(curves.produced, bisect(curves.produced, at, key=_time))
    return max(0.0, produced - _rows_of(curves.landed, bisect_left(curves.landed, at, key=_time)))


def _rows_of(points: Points, index: int) -> float:
    """The rows of the point before an index, or of the first one."""
    return points[max(0, index - 1)][1] if points else 0.0


def _time(point: tuple[float, float]) -> float:
    return point[0]


def _line(values: Sequence[float]) -> str:
    top = max(*values, 1e-9)
    # A value above zero always shows.
    heights = (-(-value * (len(_BLOCKS) - 1) // top) for value in values)
    return "".join(_BLOCKS[int(height)] for height in heights)


def _time_axis(curves: Curves, end: float, width: int) -> tuple[str, str]:
    axis = ["─"] * width
    axis[min(width - 1, int(curves.killed / end * width))] = "✗"
    axis[min(width - 1, int(curves.recovered / end * width))] = "✓"
    indent = " " * _LABEL_WIDTH
    return (
        f"{indent}{''.join(axis)}  {end:,.0f} s",
        f"{indent}✗ SIGKILL after {curves.killed:,.0f} s   "
        f"✓ first rows after it, at {curves.recovered:,.0f} s",
    )
