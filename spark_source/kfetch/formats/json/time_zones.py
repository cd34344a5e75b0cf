"""Finds the time zones that options name, with the rules of the machine or of Python's tzdata."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from datetime import datetime, timedelta, tzinfo
from functools import cache, lru_cache
from typing import Any

import numpy as np

from kfetch.errors import OptionError
from kfetch.formats.json.times import Zone, Zones, zone_of


def zone_named(name: str, *, option: str) -> Zone:
    """Returns the zone of an option's text. Raises OptionError if there is none."""
    if re.fullmatch(r"Etc/(UTC|GMT)", name):
        return 0
    zone = zone_of(name, Zones(0, find_zone))
    if zone is None:
        raise OptionError.about(
            option, f"is {name!r}, which is no known time zone", action=_advice(name)
        )
    return zone


_NOT_IN_JAVA = {"localtime", "Factory"}


@cache
def _regions() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones() - _NOT_IN_JAVA)


def find_zone(name: str) -> tzinfo | None:
    """Returns the time zone of a region, None if there is none.

    Other names would be paths of files and modules to Python, and are no zones in Java.
    """
    return zoneinfo.ZoneInfo(name) if name in _regions() else None


def _advice(name: str) -> str:
    known = {region.lower(): region for region in _regions()}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    if near:
        return f"did you mean {known[near[0]]}?"
    return "use a name like Europe/Paris, or an offset like +01:00"


_DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY = (datetime(1900, 1, 1) - _EPOCH).days
_LAST_DAY = (datetime(2100, 1, 1) - _EPOCH).days
_FOREVER_S = 1 << 40


@lru_cache(maxsize=16)
def zone_rules(zone: Zone) -> np.ndarray[Any, Any]:
    """Returns rows of int64: a local second since 1970, and the seconds east from then on.

    The last row is the end. For zones with rules the table has the years 1900 to 2099.
    """
    if isinstance(zone, int):
        return np.array([[-_FOREVER_S, zone], [_FOREVER_S, 0]], np.int64)

    def offset(second: int) -> int:
        found = zone.utcoffset(_EPOCH + timedelta(seconds=second))
        return 0 if found is None else found // timedelta(seconds=1)

    rows = [(_FIRST_DAY * _DAY_S, offset(_FIRST_DAY * _DAY_S))]
    for day in range(_FIRST_DAY, _LAST_DAY):
        low, high = day * _DAY_S, (day + 1) * _DAY_S
        after = offset(high)
        if after == rows[-1][1]:
            continue
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if offset(middle) == after else (middle, high)
        rows.append((high, after))
    return np.array([*rows, (_LAST_DAY * _DAY_S, 0)], np.int64)
