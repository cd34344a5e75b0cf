"""Dates, times and base64 for the compiled loops: the usual forms only.

``reference`` decides about every other form. So these functions return UNSURE, never a refusal of
another kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import row_of
from kfetch.formats.columns.intrinsics import called, inlined
from kfetch.formats.json.number_loops import UNSURE, is_digit
from kfetch.formats.json.text_loops import MINUS, NO_ROOM, PLUS, POINT, QUOTE, ZERO

_DAY_S = 86_400
_T, _SPACE, _Z, _COLON = ord("T"), ord(" "), ord("Z"), ord(":")


@inlined
def _two_digits(data: Any, at: int) -> Any:
    """Returns a number of two digits; one below -1000 for other bytes."""
    if is_digit(data[at]) and is_digit(data[at + 1]):
        return (np.int64(data[at]) - ZERO) * 10 + (np.int64(data[at + 1]) - ZERO)
    return -10_000


@called
def date(data: Any, at: int) -> Any:
    """Returns the days since 1970 of YYYY-MM-DD, and the position behind it, or UNSURE."""
    century, years = _two_digits(data, at), _two_digits(data, at + 2)
    month, day = _two_digits(data, at + 5), _two_digits(data, at + 8)
    year = century * 100 + years
    if year < 1 or data[at + 4] != MINUS or data[at + 7] != MINUS:
        return 0, UNSURE
    if month < 1 or month > 12 or day < 1 or day > _month_days(year, month):
        return 0, UNSURE
    # Months count from March, so the leap day is the last of a year.
    shifted_year = year - (month <= 2)
    shifted_month = month + (9 if month <= 2 else -3)
    leaps = shifted_year // 4 - shifted_year // 100 + shifted_year // 400
    days = shifted_year * 365 + leaps + (153 * shifted_month + 2) // 5 + day - 719_469
    return days, at + 10


@inlined
def _month_days(year: int, month: int) -> Any:
    if month == 2:
        return 28 + (year & 3 == 0 and (year % 100 != 0 or year % 400 == 0))
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@called
def timestamp(data: Any, at: int, local: Any, rules: int, zones: Any) -> Any:
    """Returns microseconds since 1970 of a string, and the position behind it, or UNSURE.

    ``local``: the column has no time zone, and the text must not have one either.
    ``zones``: rows of the session's zone: from which local second on, and seconds east then.
    """
    days, at = date(data, at)
    if at < 0:
        return 0, UNSURE
    seconds, micros, zone, known = days * _DAY_S, 0, 0, False
    if data[at] == _T or data[at] == _SPACE:
        hour, minute = _two_digits(data, at + 1), _two_digits(data, at + 4)
        second = _two_digits(data, at + 7)
        if hour < 0 or minute < 0 or second < 0 or hour > 23 or minute > 59 or second > 59:
            return 0, UNSURE
        if data[at + 3] != _COLON or data[at + 6] != _COLON:
            return 0, UNSURE
        seconds += hour * 3600 + minute * 60 + second
        micros, at = _fraction(data, at + 9)
        zone, known, at = _zone(data, at)
    if at < 0 or data[at] != QUOTE or (known and local):
        return 0, UNSURE
    if not (known or local):
        zone, known = _session_zone(seconds, rules, zones)
        if not known:
            return 0, UNSURE
    return (seconds - zone) * 1_000_000 + micros, at + 1


@inlined
def _fraction(data: Any, at: int) -> Any:
    """Returns the microseconds of up to nine digits behind a point, and the position behind."""
    if data[at] != POINT:
        return 0, at
    micros: Any = 0
    start = at + 1
    at = start
    while is_digit(data[at]) and at - start < 10:
        if at - start < 6:
            micros = micros * 10 + (np.int64(data[at]) - ZERO)
        at += 1
    for _ in range(at - start, 6):
        micros *= 10
    return micros, at


@inlined
def _zone(data: Any, at: int) -> Any:
    """Returns seconds east of Greenwich, whether there is a zone, and the position behind it."""
    if data[at] == _Z:
        return 0, True, at + 1
    if data[at] != PLUS and data[at] != MINUS:
        return 0, False, at
    negative, hours = data[at] == MINUS, _two_digits(data, at + 1)
    at += 3
    minutes = 0
    if data[at] != QUOTE:
        at += data[at] == _COLON
        minutes = _two_digits(data, at)
        at += 2
    if hours < 0 or hours > 17 or minutes < 0 or minutes > 59:
        return 0, False, UNSURE
    seconds = hours * 3600 + minutes * 60
    return -seconds if negative else seconds, True, at


@inlined
def _session_zone(seconds: int, rules: int, zones: Any) -> Any:
    """Returns the seconds east of Greenwich at a local time, and whether the table has it."""
    if seconds < zones[0] or seconds >= row_of(zones, rules - 1, 2)[0]:
        return 0, False
    low, high = 0, rules - 1
    while low + 1 < high:
        middle = (low + high) >> 1
        if row_of(zones, middle, 2)[0] <= seconds:
            low = middle
        else:
            high = middle
    return row_of(zones, low, 2)[1], True


@inlined
def _six_bits(byte: Any) -> Any:
    """Returns the number of a character of base64, or a negative number."""
    code = np.int64(byte)
    if 65 <= code <= 90:
        return code - 65
    if 97 <= code <= 122:
        return code - 71
    if 48 <= code <= 57:
        return code + 4
    if code == 43:
        return 62
    return 63 if code == 47 else -(1 << 30)


@called
def copy_base64(data: Any, at: int, end: int, to: Any, to_at: int, room: int) -> Any:
    """Writes the bytes of a string in base64. Returns the position behind it, and behind them."""
    while at < end:
        if data[at] == QUOTE:
            return at + 1, to_at
        if to_at + 4 > room:
            return NO_ROOM, to_at
        bits = _six_bits(data[at]) << 18 | _six_bits(data[at + 1]) << 12
        padded = 2 if data[at + 2] == 61 and data[at + 3] == 61 else 1 if data[at + 3] == 61 else 0
        if padded < 2:
            bits |= _six_bits(data[at + 2]) << 6
        if padded < 1:
            bits |= _six_bits(data[at + 3])
        if bits < 0:
            return UNSURE, to_at
        to[to_at] = bits >> 16 & 0xFF
        to[to_at + 1] = bits >> 8 & 0xFF
        to[to_at + 2] = bits & 0xFF
        to_at += 3 - padded
        at += 4
    return UNSURE, to_at
