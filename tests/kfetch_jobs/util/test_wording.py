"""Counts and times in words."""

from __future__ import annotations

import pytest

from kfetch_jobs.util.wording import counted


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 jobs were"), (1, "1 job was"), (2000, "2,000 jobs were")]
)
def test_how_many(number: int, told: str) -> None:
    """One of something is one."""
    assert told == counted(number, "job was", "jobs were")
