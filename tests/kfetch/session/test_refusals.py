"""The wait of a refused client, counted in fetches."""

from __future__ import annotations

from kfetch.session.refusals import WAIT_FETCHES_MAX, RefusalBackoff


def test_waits_double_up_to_the_maximum() -> None:
    """Each refusal costs twice as many fetches as the one before, and 64 at most."""
    backoff, waits = RefusalBackoff(), []
    for _ in range(9):
        backoff = backoff.refused()
        waits.append(backoff.remaining_fetches)

    assert [1, 2, 4, 8, 16, 32, 64, 64, 64] == waits
    assert 64 == WAIT_FETCHES_MAX


def test_the_wait_is_over_after_that_many_fetches() -> None:
    """Every answered fetch shortens the wait by one, and none makes it negative."""
    backoff = RefusalBackoff().refused().refused()

    assert not backoff.fetched().is_over
    assert backoff.fetched().fetched().is_over
    assert 0 == backoff.fetched().fetched().fetched().remaining_fetches


def test_a_session_starts_the_series_anew() -> None:
    """After the broker has opened a session, the next refusal costs one fetch again."""
    backoff = RefusalBackoff().refused().refused().refused()

    assert 4 == backoff.remaining_fetches
    assert RefusalBackoff().refused() == backoff.opened().refused()
