"""A small piece of ``make fuzz``, the same every time."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from spark_source import records

from . import fuzz


def test_damaged_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged bytes of real producers give right rows or a clean error, from both decoders."""
    monkeypatch.setattr(records, "IMPLEMENTATION", "kernel")
    outcomes = list(islice(fuzz.attempts(random.Random(6)), 800))

    assert 100 < sum(outcomes) < 800
