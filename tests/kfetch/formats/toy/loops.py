"""The compiled loop of text of fixed width."""

from __future__ import annotations

from typing import Any

import numpy as np


def find_corrupt(lengths: Any, count: int, width: int, corrupt: Any) -> int:
    """Writes the numbers of the values of another length. Returns how many there are.

    A length below 0 is a null.
    """
    found = np.int64(0)
    for record in range(count):
        if lengths[record] >= 0 and lengths[record] != width:
            corrupt[found] = record
            found += 1
    return found
