"""Another way to the times of cron expressions: it looks at each minute of the calendar.

As Debian's cron counts: a time that names minute and hour comes once if clocks go back, and right
after the change if they leave it out. Other expressions follow the clock on the wall.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

_MINUTE = 60
_DAY = 86_400


def _values(text: str, low: int, high: int) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = low if first == "*" else int(first)
        end = high if first == "*" else int(last or first)
        numbers |= set(range(begin, end + 1, int(step or 1)))
    return frozenset(numbers)


@cache
def fires(expression: str, zone: str, day: int) -> tuple[int, ...]:
    """Returns the times of a day of UTC, in seconds since 1970."""
    minutes, hours, days, months, weekdays = expression.split()
    minute, hour = _values(minutes, 0, 59), _values(hours, 0, 23)
    dates, month = _values(days, 1, 31), _values(months, 1, 12)
    weekday = _values(weekdays, 0, 6)
    at_a_time = not (minutes.startswith("*") or hours.startswith("*"))
    tz = ZoneInfo(zone)

    def matches(local: datetime) -> bool:
        return (
            local.minute in minute
            and local.hour in hour
            and local.day in dates
            and local.month in month
            and local.isoweekday() % 7 in weekday
        )

    found = []
    before = datetime.fromtimestamp(day * _DAY - _MINUTE, tz)
    for at in range(day * _DAY, (day + 1) * _DAY, _MINUTE):
        local = datetime.fromtimestamp(at, tz)
        expected = before.replace(tzinfo=None) + timedelta(minutes=1)
        present = local.replace(tzinfo=None)
        left_out = at_a_time and present > expected and _any(matches, expected, present)
        if left_out or (matches(local) and not (at_a_time and local.fold)):
            found.append(at)
        before = local
    return tuple(found)


def _any(matches: object, begin: datetime, end: datetime) -> bool:
    while begin < end:
        if matches(begin):  # type: ignore[operator]
            return True
        begin += timedelta(minutes=1)
    return False


def next_fire(expression: str, zone: str, after: float) -> int:
    """Returns the first time after a moment, in seconds since 1970."""
    day = int(after // _DAY)
    while True:
        times = fires(expression, zone, day)
        place = bisect_right(times, after)
        if place < len(times):
            return times[place]
        day += 1


def is_fire(expression: str, zone: str, at: float) -> bool:
    """Returns whether a moment is a time of the expression."""
    times = fires(expression, zone, int(at // _DAY))
    place = bisect_left(times, at)
    return place < len(times) and times[place] == at
