"""The demo's curves as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.demo.curve import Curves, Interval, curves
from kfetch_jobs.demo.terminal_plot import _rates, plot
from tests.kfetch_jobs.demo.test_curve import BATCHES, KILL, PRODUCED


def test_the_plot() -> None:
    """Three curves share one time axis, on which the kill and the recovery are marked."""
    drawn = plot(curves(PRODUCED, BATCHES, KILL), width=14)

    assert [
        "produced  ████████████    up to 20 rows/s",
        "in Delta  ▃▃▂ ▄█████████  up to 23 rows/s",
        "lag       ▁▂▂▁▁▁▁▁▁▁▁███  up to 220 records",
        "          ────✗────────✓  14 s",
        "          ✗ SIGKILL after 4 s   ✓ first rows after it, at 14 s",
    ] == list(drawn)


@given(
    intervals=st.lists(
        st.tuples(st.floats(0, 50), st.floats(0.1, 50), st.integers(0, 10**6)), max_size=5
    ),
    width=st.integers(1, 80),
)
def test_rows_add_up(intervals: list[tuple[float, float, int]], width: int) -> None:
    """The columns' rates times their width are all rows, however the intervals lie."""
    landed = [Interval(start, start + length, rows) for start, length, rows in intervals]
    rows = sum(_rates(landed, 100.0, width)) * 100.0 / width

    assert sum(interval.rows for interval in landed) == pytest.approx(rows)


def test_a_small_value_shows() -> None:
    """A column with a single row is not empty, and a column without rows is."""
    landed = [Interval(0, 1, 10_000), Interval(1, 2, 1), Interval(3, 4, 10_000)]
    drawn = Curves(produced=[], landed=landed, lag=[(0, 0)], killed=1, restarted=1.1, recovered=3)

    assert "in Delta  █▁ █  " in plot(drawn, width=4)[1]


def test_nothing_at_all() -> None:
    """Curves without a point are an empty plot."""
    drawn = Curves(produced=[], landed=[], lag=[], killed=0, restarted=0, recovered=0)

    assert "produced        up to 0 rows/s" == plot(drawn, width=4)[0]
