"""Numbers as people read them: few digits, a unit, and nothing that is not known; pure."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["UNKNOWN", "ago", "clock", "count", "duration", "per_second", "plural", "size", "until"]

UNKNOWN = "\u2013"
_THIN = "\u202f"  # between a number and its unit: no line is broken there
_EXACT_MAX = 100_000


def count(value: float | None) -> str:
    """``1,234``, ``1.23 M``; below 100,000 exactly."""
    if value is None:
        return UNKNOWN
    if abs(value) < _EXACT_MAX:
        return f"{value:,.0f}"
    return _scaled(value, 1000, ("", "k", "M", "G", "T", "P", "E"))


def size(value: float | None) -> str:
    """Bytes: ``12.3 MiB``."""
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
    """``1,234``, and below 10 with a digit more, so that little is not nothing."""
    if value is not None and 0 < abs(value) < 9.95:
        return f"{value:.1f}"
    return count(value)


def duration(seconds: float | None) -> str:
    """``120 ms``, ``4.2 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds is None:
        return UNKNOWN
    seconds = max(0.0, seconds)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}{_THIN}ms" if seconds else f"0{_THIN}s"
    if seconds < 9.95:
        return f"{seconds:.1f}{_THIN}s"
    whole = round(seconds)
    for length, unit, below, lower in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= length:
            return _two(whole // length, unit, whole % length // below, lower)
    if whole >= 60:
        return _two(whole // 60, "min", whole % 60, "s")
    return f"{whole}{_THIN}s"


def _two(high: int, unit: str, low: int, lower: str) -> str:
    first = f"{high:,}{_THIN}{unit}"
    return f"{first} {low}{_THIN}{lower}" if low else first


def ago(then: float | None, now: float) -> str:
    """``3 min ago``, without a second unit: it changes all the time."""
    if then is None:
        return UNKNOWN
    if now - then < 1.5:
        return "now"
    return f"{_short(now - then)} ago"


def until(then: float | None, now: float) -> str:
    """``in 20 s``."""
    if then is None:
        return UNKNOWN
    return "now" if then - now < 0.5 else f"in {_short(then - now)}"


def _short(seconds: float) -> str:
    return duration(max(1, round(seconds))).split(" ")[0].replace(f".0{_THIN}", _THIN)


def clock(at: float | None) -> str:
    """``2026-01-31 23:59:58 UTC``."""
    if at is None:
        return UNKNOWN
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def plural(number: int, noun: str, end: str = "s") -> str:
    """``1 job``, ``2 jobs``; ``end`` is what makes it many."""
    return f"{number:,} {noun}{'' if number == 1 else end}"
