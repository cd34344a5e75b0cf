"""A time zone as a table for the compiled loops: from which local time on which offset holds."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from kfetch.formats.json.times import Zone

__all__ = ["zone_rules"]

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
