"""Counts, times and durations in words for people. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def counted(count: int, one: str, many: str = "") -> str:
    """Returns ``1 job`` or ``2 jobs``. ``many`` is a plural that does not end in s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def utc(at_s: float) -> str:
    """Returns ``2026-01-31 23:59:58 UTC`` for seconds since 1970: one zone on all machines.

    Raises ValueError, OverflowError or OSError for a time out of the calendar's range.
    """
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float, space: str = " ") -> str:
    """Returns ``58 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d``: whole seconds, two units at most.

    ``space``: what stands between a number and its unit.
    """
    whole = max(0, int(seconds))
    units = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
    for length, unit, below, lower in units:
        if whole >= length:
            first, rest = f"{whole // length:,}{space}{unit}", whole % length // below
            return f"{first} {rest}{space}{lower}" if rest else first
    return f"{whole}{space}s"
