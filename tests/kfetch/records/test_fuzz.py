"""A small piece of ``make fuzz``, the same every time."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from kfetch import decoding
from tests.kfetch.records import fuzz


def test_damaged_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged bytes of real producers give right rows or a clean error, from both decoders."""
    monkeypatch.setattr(decoding, "kernel", decoding.kernel)  # which an attempt changes
    outcomes = list(islice(fuzz.attempts(random.Random(6)), 800))

    assert 100 < sum(outcomes) < 800
