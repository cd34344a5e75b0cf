"""Exponential back-off as a value."""

from __future__ import annotations

from kfetch.backoff import Backoff


def test_pauses_double_up_to_the_maximum() -> None:
    """Each pause is twice the one before, and none is longer than the maximum."""
    backoff, pauses = Backoff(0.5, 3), []
    for _ in range(5):
        pauses.append(backoff.pause)
        backoff = backoff.doubled()

    assert [0.5, 1, 2, 3, 3] == pauses


def test_a_back_off_does_not_change() -> None:
    """Doubling returns another value."""
    backoff = Backoff(1, 64)
    backoff.doubled()

    assert Backoff(1, 64) == backoff
