"""What Python and the compiled JSON loops share: their parameters, and the table of powers.

The loops make floating-point numbers of it. First come the exact powers of ten as float64. Then,
for each power q in range, the upper 128 bits of 5**q follow. For q below 0 they are those of the
reciprocal, rounded up (Lemire, Number Parsing at a Gigabyte per Second, 2021).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from kfetch.formats.columns import node_table

# The state of ``decode_documents``, behind what all formats have.
RAW = node_table.OWN  # 1 if the documents come from ``substitutes``: storage numbers, all fields
ZONE_RULES = node_table.OWN + 1  # number of rows in the table of zone offsets

DEPTH_MAX = 64  # of containers inside each other that the loops read
STRING_LENGTH_MAX = 20_000_000  # of a text, in Java's characters: Spark's default of maxStringLen

PARAMETERS = {
    "decode_documents": (
        *node_table.PARAMETERS,
        *("int64*", "int64*", "int64*"),  # powers, zone offsets, stack
    ),
}
POWERS_OF_TEN = 23
FIVES_FROM, FIVES_TO = -342, 308
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
