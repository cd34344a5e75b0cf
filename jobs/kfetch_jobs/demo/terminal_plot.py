"""The demo's curves as lines of text, for the terminal. It only computes."""

from __future__ import annotations

from collections.abc import Sequence

from kfetch_jobs.demo.curve import Curves, Interval, Points

_BLOCKS = " ▁▂▃▄▅▆▇█"
_NAMES = ("produced", "in Delta", "lag")
_LABEL_WIDTH = 10


def plot(curves: Curves, width: int = 50) -> tuple[str, ...]:
    """Returns a line for each curve, then the time axis and what happened when.

    Each character is one ``width``-th of the time from the first event to the last row. Its height
    is relative to the curve's highest value, which stands at the end of the line.
    """
    end = _end(curves)
    produced, landed = (
        _rates(intervals, end, width) for intervals in (curves.produced, curves.landed)
    )
    lag = _lags(curves.lag, end, width)
    units = ("rows/s", "rows/s", "records")
    lines = [
        f"{name:<{_LABEL_WIDTH}}{_line(values)}  up to {max(values):,.0f} {unit}"
        for name, values, unit in zip(_NAMES, (produced, landed, lag), units, strict=True)
    ]
    return (*lines, *_time_axis(curves, end, width))


def _end(curves: Curves) -> float:
    ends = [interval.end for interval in (*curves.produced, *curves.landed)]
    return max([*ends, *(at for at, _ in curves.lag), 1.0])


def _rates(intervals: Sequence[Interval], end: float, width: int) -> list[float]:
    """The mean rate in each column, in rows per second. The rows add up."""
    step = end / width
    rates = [0.0] * width
    for interval in intervals:
        for column in range(width):
            shared = min(interval.end, (column + 1) * step) - max(interval.start, column * step)
            rates[column] += max(0.0, shared) * interval.rate / step
    return rates


def _lags(points: Points, end: float, width: int) -> list[float]:
    """The highest lag in each column, in records."""
    step = end / width
    lags: list[float] = []
    for column in range(width):
        before = [lag for at, lag in points if at <= column * step][-1:]
        within = [lag for at, lag in points if column * step < at <= (column + 1) * step]
        lags.append(max([*before, *within], default=0.0))
    return lags


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
