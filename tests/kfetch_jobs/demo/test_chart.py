"""The demo's picture."""

from __future__ import annotations

from pathlib import Path

from kfetch_jobs.demo import chart
from kfetch_jobs.demo.curve import curves
from tests.kfetch_jobs.demo.test_curve import BATCHES, KILL, PRODUCED


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    """Drawing needs no screen, and makes the directory."""
    path = tmp_path / "new" / "clicks.png"
    chart.draw(curves(PRODUCED, BATCHES, KILL), "title", path)

    assert b"\x89PNG" == path.read_bytes()[:4]
