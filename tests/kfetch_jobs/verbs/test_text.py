"""Numbers and durations for people."""

from __future__ import annotations

import pytest

from kfetch_jobs.verbs import text


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")],
)
def test_durations(seconds: float, told: str) -> None:
    """A duration has two units."""
    assert told == text.duration(seconds)
