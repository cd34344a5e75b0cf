"""Times for people, in one zone on all machines: UTC. Each has the zone's name. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(at_s: float) -> str:
    """Returns ``2026-01-31 23:59:58 UTC`` for seconds since 1970.

    Raises ValueError, OverflowError or OSError for a time out of the calendar's range.
    """
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
