"""Dates and times as Spark reads them from text, where no format is given.

The rules are those of Spark's SparkDateTimeUtils: ``stringToDate`` and ``parseTimestampString``,
with the fallback that its JSON reader has for text of Spark 1.
Times without a date are refused: Spark would add the date of the day on which it reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

Zone = int | tzinfo
"""A time zone: seconds east of Greenwich, or rules."""

MICROS = 1_000_000
_DAY_MICROS = 86_400 * MICROS
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_OFFSET_MAX = 18 * 3600  # java.time.ZoneOffset
_PERIOD_DAYS = 146_097  # 400 years: the calendar and the rules of zones repeat
_TRIMMED = "".join(map(chr, range(33))) + "\x7f"
_GREGORIAN_START = -141_427  # 1582-10-15


@dataclass(frozen=True, slots=True)
class Zones:
    """The time zone of the Spark session, and how to find another one by its name."""

    session: Zone = 0
    find: Callable[[str], tzinfo | None] = lambda name: None
    """Returns the zone of a region like Europe/Paris, None if there is none."""


def days_of(year: int, month: int, day: int) -> int | None:
    """Returns days since 1970-01-01 in the Gregorian calendar; None if there is no such day."""
    if not (1 <= month <= 12 and 1 <= day <= _month_days(year, month)):
        return None
    years = year - (month <= 2)
    month_from_march = (month + 9) % 12
    leap_days = years // 4 - years // 100 + years // 400
    return years * 365 + leap_days + (153 * month_from_march + 2) // 5 + day - 1 - 719_468


def _month_days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.A)


def date_of(text: str) -> int | None:
    """Returns the days since 1970-01-01 of a date's text; None if Spark refuses it."""
    for candidate in (text, _clean(text)):
        days = _date(candidate)
        if days is not None:
            return days
    return _day_number(text)


def _date(text: str) -> int | None:
    match = _DATE.fullmatch(text.strip(_TRIMMED))
    if match is None:
        return None
    year = int(match[2]) * (-1 if match[1] == "-" else 1)
    days = days_of(year, int(match[3] or 1), int(match[4] or 1))
    return days if days is not None and -_INT_MAX - 1 <= days <= _INT_MAX else None


def _clean(text: str) -> str:
    """Returns the text without its first "GMT", as ``cleanLegacyTimestampStr``."""
    return text.replace("GMT", "", 1)


def _day_number(text: str) -> int | None:
    """Returns a number of days, the way in which Spark 1.5 wrote dates."""
    if not re.fullmatch(r"[+-]?\d{1,20}", text):
        return None
    days = int(text)
    if not -_INT_MAX - 1 <= days <= _INT_MAX:
        return None
    return days if days >= _GREGORIAN_START else _from_julian(days)


def _from_julian(days: int) -> int | None:
    """Returns the day with the same date in the Gregorian calendar."""
    shifted = days + 719_470  # days since 0000-03-01 in the Julian calendar
    era, day_of_era = divmod(shifted, 1461)
    year_of_era = (day_of_era - day_of_era // 1460) // 365
    day_of_year = day_of_era - 365 * year_of_era
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return days_of(4 * era + year_of_era + (month <= 2), month, day)


_TIMESTAMP = re.compile(
    r"""([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](.*))?)?)?""", re.DOTALL | re.A
)
_TIME = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(.*))?)?", re.DOTALL | re.A)
_FRACTION = re.compile(r"(?:\.(\d*))?(.*)", re.DOTALL | re.A)


def timestamp_of(text: str, zones: Zones) -> int | None:
    """Returns microseconds since 1970 in UTC; None if Spark refuses the text."""
    for candidate in (text, _clean(text)):
        micros = _timestamp(candidate, zones)
        if micros is not None:
            return micros
    return None


def _timestamp(text: str, zones: Zones) -> int | None:
    parts = _parts(text)
    if parts is None:
        return None
    local, zone_name = parts
    zone = zones.session if zone_name is None else zone_of(zone_name, zones)
    if zone is None:
        return None
    micros = local - _offset(local, zone) * MICROS
    return micros if -_LONG_MAX - 1 <= micros <= _LONG_MAX else None


def local_timestamp_of(text: str) -> int | None:
    """Returns microseconds since 1970 of a clock without a zone. Text with a zone is refused."""
    parts = _parts(text)
    if parts is None or parts[1] is not None:
        return None
    return parts[0] if -_LONG_MAX - 1 <= parts[0] <= _LONG_MAX else None


def _parts(text: str) -> tuple[int, str | None] | None:
    """Returns the microseconds of the local time, and the zone's name if there is one."""
    match = _TIMESTAMP.fullmatch(text.strip(_TRIMMED))
    if match is None:
        return None
    year = int(match[2]) * (-1 if match[1] == "-" else 1)
    days = days_of(year, int(match[3] or 1), int(match[4] or 1))
    time = (0, None) if match[5] is None else _time(match[5])
    if days is None or time is None:
        return None
    return days * _DAY_MICROS + time[0], time[1]


def _time(text: str) -> tuple[int, str | None] | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(match[i] or 0) for i in (1, 2, 3))
    fraction = _FRACTION.fullmatch(match[4] or "")
    if fraction is None or not (hour < 24 and minute < 60 and second < 60):
        return None
    micros = int((fraction[1] or "")[:6].ljust(6, "0"))
    return ((hour * 60 + minute) * 60 + second) * MICROS + micros, fraction[2] or None


def _offset(local: int, zone: Zone) -> int:
    """Returns a zone's seconds east of Greenwich at a local time, the earlier one if two fit."""
    if isinstance(zone, int):
        return zone
    days = local // _DAY_MICROS
    seconds = local // MICROS - days * 86_400
    # Python's calendar has the years 1 to 9999.
    first, last = -719_162, 2_932_896 - _PERIOD_DAYS
    if days < first:
        days += -((days - first) // _PERIOD_DAYS) * _PERIOD_DAYS
    elif days > last:
        days -= -((last - days) // _PERIOD_DAYS) * _PERIOD_DAYS
    offset = zone.utcoffset(datetime(1970, 1, 1) + timedelta(days, seconds))
    return 0 if offset is None else offset // timedelta(seconds=1)


_OFFSET = re.compile(
    r"(?P<sign>[+-])(?:(?P<h>\d{1,2})|(?P<hm>\d\d:?\d\d)|(?P<hms>\d\d:\d\d:\d\d|\d{6}))", re.A
)
_PREFIXED = re.compile(r"(UTC|GMT|UT)(.*)", re.DOTALL)
_SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""java.time.ZoneId.SHORT_IDS."""


def zone_of(name: str, zones: Zones) -> Zone | None:
    """Returns the zone that a name in a timestamp means, as Spark's ``getZoneId``."""
    name = name.strip(_TRIMMED[:33])
    name = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name, count=1)
    name = re.sub(r"([+-])(\d\d):(\d)\Z", r"\1\2:0\3", name, count=1)
    name = _SHORT_IDS.get(name, name)
    if name == "Z":
        return 0
    if name[:1] in ("+", "-"):
        return _fixed(name)
    prefixed = _PREFIXED.fullmatch(name)
    if prefixed and not prefixed[2]:
        return 0
    if prefixed and prefixed[2][0] in "+-":
        return _fixed(prefixed[2])
    return zones.find(name)


def _fixed(text: str) -> int | None:
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    digits = text[1:].replace(":", "")
    digits = digits.zfill(2) if match["h"] else digits
    hours, minutes, seconds = (int(digits[i : i + 2] or 0) for i in (0, 2, 4))
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _OFFSET_MAX:
        return None
    return -total if match["sign"] == "-" else total
