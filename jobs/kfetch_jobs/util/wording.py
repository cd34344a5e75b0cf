"""Counts and times in words for people. Pure."""

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
