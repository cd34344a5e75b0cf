"""Counts and times in words."""

from __future__ import annotations

import pytest

from kfetch_jobs.util.wording import counted, duration


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 jobs were"), (1, "1 job was"), (2000, "2,000 jobs were")]
)
def test_how_many(number: int, told: str) -> None:
    """One of something is one."""
    assert told == counted(number, "job was", "jobs were")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (7260, "2 h 1 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    """A duration has two units at most."""
    assert told == duration(seconds)
