"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch_jobs.web import units
from tests.examples import examples


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, units.UNKNOWN),
        (0, "0"),
        (1234, "1,234"),
        (99_999, "99,999"),
        (100_000, "100 k"),
        (1_234_567, "1.23 M"),
        (999_999, "1.00 M"),
        (12_345_678, "12.3 M"),
        (1e30, "1,000,000,000,000 E"),
    ],
)
def test_counts(value: float | None, text: str) -> None:
    """Small numbers are exact, large ones have three digits."""
    assert text == units.count(value).replace("\u202f", " ")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1,023 B"), (1024, "1.00 KiB"), (64 << 20, "64.0 MiB")]
)
def test_sizes(value: float, text: str) -> None:
    """Sizes are in powers of 1024."""
    assert text == units.size(value).replace("\u202f", " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, units.UNKNOWN),
        (0, "0 s"),
        (0.0123, "12 ms"),
        (0.9999, "1.0 s"),
        (4.21, "4.2 s"),
        (9.97, "10 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (273_700, "3 d 4 h"),
        (-1, "0 s"),
    ],
)
def test_durations(value: float | None, text: str) -> None:
    """A duration has two units at most."""
    assert text == units.duration(value).replace("\u202f", " ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("now", units.ago(99.0, 100.0)),
        ("3 s ago", units.ago(97.0, 100.0)),
        ("3 min ago", units.ago(0.0, 200.0)),
        (units.UNKNOWN, units.ago(None, 1.0)),
        ("in 20 s", units.until(120.0, 100.0)),
        ("now", units.until(90.0, 100.0)),
        ("0.4", units.per_second(0.4)),
        ("0", units.per_second(0.0)),
        ("12", units.per_second(12.4)),
        ("1970-01-01 00:00:01 UTC", units.clock(1.0)),
        (units.UNKNOWN, units.clock(1e300)),
    ],
)
def test_times_and_rates(text: str, told: str) -> None:
    """A small rate is not 0, and a moment ago is now."""
    assert text == told.replace("\u202f", " ")


@examples(60)
@given(value=st.floats(0, 1e11))
def test_no_number_is_long(value: float) -> None:
    """Every number fits its column."""
    assert all(len(form(value)) <= 16 for form in (units.count, units.size, units.duration))
