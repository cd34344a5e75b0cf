"""Small pictures inside the text."""

from __future__ import annotations

from dataclasses import replace

from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.web import drawing


def test_a_line_of_little_or_nothing() -> None:
    """One point is no line. An unknown value repeats the last one. Zeros lie on the ground."""
    assert "" == drawing.sparkline([]) == drawing.sparkline([5.0])
    assert "M0.0 1.0L60.0 1.0L120.0 23.0" == drawing.sparkline([4.0, None, 0.0])
    assert "M0.0 23.0L120.0 23.0" == drawing.sparkline([None, 0.0])


def test_phases_are_as_wide_as_they_took() -> None:
    """Bars follow Spark's order, with the rest at the end, and stay inside the picture."""
    batch = Batch(
        batch=1,
        started="",
        finished=1.0,
        rows=1,
        seconds=2.0,
        end=1,
        latest=1,
        phases={"addBatch": 1.0, "latestOffset": 0.5, "unheard": 0.25},
    )
    bars = drawing.bars(batch, longest_s=4.0)

    assert [("latestOffset", 0.0, 25.0), ("addBatch", 25.0, 50.0), ("other", 75.0, 25.0)] == [
        (bar.phase, bar.x, bar.width) for bar in bars
    ]
    wild = replace(batch, phases={"addBatch": 1e9, "getBatch": -1.0})
    assert all(bar.x + bar.width <= drawing.BAR_WIDTH for bar in drawing.bars(wild, 0.0))
    assert set(drawing.phases()) >= {bar.phase for bar in bars}
