"""The table of powers from which the compiled loops make floating-point numbers.

First come the exact powers of ten as float64. Then, for each power q in range, the upper 128 bits
of 5**q follow. For q below 0 they are those of the reciprocal, rounded up (Lemire, Number Parsing
at a Gigabyte per Second, 2021).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from kfetch.formats.columns.layout import FIVES_FROM, FIVES_TO, POWERS_OF_TEN

_BITS = 128
_LOW = (1 << 64) - 1


def _five(power: int) -> int:
    """Returns the upper 128 bits of a power of five, the highest of them set."""
    if power >= 0:
        five: int = 5**power
        shift = five.bit_length() - _BITS
        return five >> shift if shift > 0 else five << -shift
    five = 5**-power
    bits = (five - 1).bit_length() + _BITS - 1 if power >= -27 else 2 * five.bit_length() + _BITS
    reciprocal = (1 << bits) // five + 1
    return reciprocal >> max(reciprocal.bit_length() - _BITS, 0)


def _numbers() -> Iterator[int]:
    for power in range(POWERS_OF_TEN):
        yield int.from_bytes(struct.pack("<d", 10.0**power), "little")
    for power in range(FIVES_FROM, FIVES_TO + 1):
        five = _five(power)
        yield five >> 64
        yield five & _LOW


POWERS: np.ndarray[Any, Any] = np.array(list(_numbers()), np.uint64).view(np.int64)
