"""Formats numbers for people: few digits and a unit; pure."""

from __future__ import annotations

from kfetch_jobs.util import wording

UNKNOWN = "\u2013"
_THIN = "\u202f"  # between a number and its unit: no line breaks there
_EXACT_MAX = 100_000


def count(value: float | None) -> str:
    """Returns ``1,234`` or ``1.23 M``. Numbers below 100,000 are exact."""
    if value is None:
        return UNKNOWN
    if abs(value) < _EXACT_MAX:
        return f"{value:,.0f}"
    return _scaled(value, 1000, ("", "k", "M", "G", "T", "P", "E"))


def size(value: float | None) -> str:
    """Returns a number of bytes as ``12.3 MiB``."""
    if value is None:
        return UNKNOWN
    return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def _scaled(value: float, step: int, names: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= step * 0.9995 and power < len(names) - 1:
        value, power = value / step, power + 1
    digits = 0 if power == 0 or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{digits}f}{_THIN if names[power] else ''}{names[power]}"


def per_second(value: float | None) -> str:
    """Returns ``1,234``. Numbers below 10 have one digit more, so small ones are not 0."""
    if value is not None and 0 < abs(value) < 9.95:
        return f"{value:.1f}"
    return count(value)


def duration(seconds: float | None) -> str:
    """Returns ``120 ms``, ``4.2 s``, ``3 min 20 s``, ``2 h 5 min`` or ``3 d 4 h``."""
    if seconds is None:
        return UNKNOWN
    seconds = max(0.0, seconds)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}{_THIN}ms" if seconds else f"0{_THIN}s"
    if seconds < 9.95:
        return f"{seconds:.1f}{_THIN}s"
    return wording.duration(round(seconds), _THIN)


def ago(then: float | None, now: float) -> str:
    """Returns ``3 min ago``, with one unit only because it changes all the time."""
    if then is None:
        return UNKNOWN
    if now - then < 1.5:
        return "now"
    return f"{_short(now - then)} ago"


def lasting(then: float | None, now: float) -> str:
    """Returns ``for 3 min``, for a state that goes on."""
    return UNKNOWN if then is None else f"for {_short(now - then)}"


def until(then: float | None, now: float) -> str:
    """Returns ``in 20 s``."""
    if then is None:
        return UNKNOWN
    return "now" if then - now < 0.5 else f"in {_short(then - now)}"


def _short(seconds: float) -> str:
    return duration(max(1, round(seconds))).split(" ")[0].replace(f".0{_THIN}", _THIN)


def clock(at: float | None) -> str:
    """Returns ``2026-01-31 23:59:58 UTC``."""
    if at is None:
        return UNKNOWN
    try:
        return wording.utc(at)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
