"""The demo's throughput and lag over time, from counts, and their curves as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.demo.summary import Kill
from kfetch_jobs.demo.terminal_plot import Curves, Points, _lags, _rates, curves, plot
from kfetch_jobs.progress.batch import Batch


def batch(number: int, finished: float, end: int) -> Batch:
    return Batch(
        batch=number, started="", finished=finished, rows=1, seconds=1, end=end, latest=end
    )


PRODUCED = [(100.0, 12), (101.0, 32), (102.0, 52), (112.0, 252)]
BATCHES = [batch(0, 99.0, 12), batch(1, 102.5, 32), batch(2, 114.0, 252)]
KILL = Kill(at=104.0, restarted=104.5, processes=7, batch=2)


def test_landed_rows_start_at_the_restart() -> None:
    """No row lands in the time in which nothing ran."""
    drawn = curves(PRODUCED, BATCHES, KILL)

    assert [(0.0, 12), (2.5, 32), (4.5, 32), (14.0, 252)] == drawn.landed
    assert (4.0, 14.0) == (drawn.killed, drawn.recovered)


def test_lag_is_produced_minus_landed() -> None:
    """Lag starts at nothing, falls in a step with each batch, and ends at nothing."""
    drawn = curves(PRODUCED, [*BATCHES, batch(3, 119.0, 252)], KILL)
    lags = _lags(drawn, 19.0, 38)

    assert (20, 40, 40, 20) == (lags[1], lags[4], lags[5], lags[6])
    assert (220, 220, 0) == (max(lags), lags[28], lags[29])


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
    intervals=st.lists(st.tuples(st.floats(0.1, 20), st.integers(0, 10**6)), max_size=5),
    width=st.integers(1, 80),
)
def test_rows_add_up(intervals: list[tuple[float, int]], width: int) -> None:
    """The columns' rates times their width are all rows, however the intervals lie."""
    landed: Points = [(0.0, 0.0)]
    for length, more in intervals:
        at, rows = landed[-1]
        landed.append((at + length, rows + more))
    rows = sum(_rates(landed, 100.0, width)) * 100.0 / width

    assert landed[-1][1] == pytest.approx(rows)


def test_a_small_value_shows() -> None:
    """A column with a single row is not empty, and a column without rows is."""
    landed = [(0.0, 0.0), (1, 10_000), (2, 10_001), (3, 10_001), (4, 20_001)]
    drawn = Curves(produced=[], landed=landed, killed=1, recovered=3)

    assert "in Delta  █▁ █  " in plot(drawn, width=4)[1]


def test_nothing_at_all() -> None:
    """Curves without a point are an empty plot."""
    drawn = Curves(produced=[], landed=[], killed=0, recovered=0)

    assert "produced        up to 0 rows/s" == plot(drawn, width=4)[0]
