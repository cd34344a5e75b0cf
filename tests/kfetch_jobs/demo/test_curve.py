"""Throughput and lag over time, from counts."""

from __future__ import annotations

from kfetch_jobs.demo.curve import Interval, curves
from kfetch_jobs.demo.summary import Kill
from kfetch_jobs.progress.batch import Batch


def batch(number: int, finished: float, end: int) -> Batch:
    return Batch(
        batch=number, started="", finished=finished, rows=1, seconds=1, end=end, latest=end
    )


PRODUCED = [(100.0, 12), (101.0, 32), (102.0, 52), (112.0, 252)]
BATCHES = [batch(0, 99.0, 12), batch(1, 102.5, 32), batch(2, 114.0, 252)]
KILL = Kill(at=104.0, restarted=104.5, processes=7, batch=2)


def test_landed_rows_start_at_the_restart() -> None:
    """A bar's area is its rows, and none reaches over the time in which nothing ran."""
    drawn = curves(PRODUCED, BATCHES, KILL)

    assert [Interval(0.0, 2.5, 20), Interval(4.5, 14.0, 220)] == drawn.landed
    assert [8.0, 220 / 9.5] == [interval.rate for interval in drawn.landed]
    assert (4.0, 4.5, 14.0) == (drawn.killed, drawn.restarted, drawn.recovered)


def test_produced_rows_add_up() -> None:
    """The intervals of the producer's curve cover every event after the first few."""
    drawn = curves(PRODUCED, BATCHES, KILL)

    assert 240 == sum(interval.rows for interval in drawn.produced)


def test_lag_is_produced_minus_landed() -> None:
    """Lag starts at nothing, falls in a step with each batch, and ends at nothing."""
    lag = curves(PRODUCED, BATCHES, KILL).lag

    assert (0.0, 0) == lag[0]
    assert [40, 20] == [value for at, value in lag if at == 2.5]
    assert (14.0, 0) == lag[-1]
