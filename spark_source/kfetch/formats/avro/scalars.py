"""Values of Avro for the compiled loops: numbers, text and decimals, into a column's slot.

Each function checks the end of the record before it reads, and the buffer's room before it writes.
It returns the position behind the value, or a reason below 0 (``layout``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kfetch.compiled.pointers import copy
from kfetch.formats.avro.layout import (
    BAD_DECIMAL,
    BAD_NUMBER,
    ENDS_EARLY,
    NEGATIVE,
    NO_OFFSETS,
    NO_ROOM,
    SLACK,
    TEXT_MAX,
)
from kfetch.formats.columns.intrinsics import at_address, copy16, int32s, int64s
from kfetch.formats.columns.layout import DATA, ENDS, ROOM, SIZE
from kfetch.formats.columns.number_loops import called, inlined

_SHORT = 64  # bytes of text that are copied without a call


@inlined
def _number(data: Any, at: int, end: int, shift_max: int) -> Any:
    """Returns the bits of a number of variable length, and the position behind it."""
    value, shift = np.uint64(0), np.uint64(0)
    while True:
        if at >= end:
            return np.uint64(0), np.int64(ENDS_EARLY)
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return value, np.int64(at)
        shift += np.uint64(7)
        if shift > np.uint64(shift_max):
            return np.uint64(0), np.int64(BAD_NUMBER)


@called
def _long_number(data: Any, at: int, end: int) -> Any:
    return _number(data, at, end, 63)


@called
def _int_number(data: Any, at: int, end: int) -> Any:
    value, at = _number(data, at, end, 28)
    return value & np.uint64(0xFFFFFFFF), at


@inlined
def _signed(value: Any) -> Any:
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@inlined
def long_at(data: Any, at: int, end: int) -> Any:
    """Returns a long and the position behind it."""
    if at < end and data[at] < 128:
        return _signed(np.uint64(data[at])), np.int64(at + 1)
    value, after = _long_number(data, at, end)
    return _signed(value), after


@inlined
def int_at(data: Any, at: int, end: int) -> Any:
    """Returns an int and the position behind it."""
    if at < end and data[at] < 128:
        return _signed(np.uint64(data[at])), np.int64(at + 1)
    value, after = _int_number(data, at, end)
    return _signed(value), after


@inlined
def text_size(data: Any, at: int, end: int) -> Any:
    """Returns the bytes of a text, all of which lie before the end, and its position."""
    size, after = long_at(data, at, end)
    if after >= 0:
        if size < 0:
            return np.int64(0), np.int64(NEGATIVE)
        if size > end - after:
            return np.int64(0), np.int64(ENDS_EARLY)
    return size, after


@inlined
def put_bytes(data: Any, at: int, length: int, data_end: int, node: Any, slot: int) -> Any:
    """Writes bytes into a column of text. Returns 0 or a reason.

    ``data_end``: so far the memory may be read.
    """
    size = node[SIZE]
    if length > TEXT_MAX - size:
        return np.int64(NO_OFFSETS)
    if size + length + SLACK > node[ROOM]:
        return np.int64(NO_ROOM)
    to = at_address(node[DATA])
    if length <= _SHORT and at + length + 16 <= data_end:
        done = np.int64(0)
        while done < length:
            copy16(to, size + done, data, at + done)
            done += 16
    else:
        copy(to, size, data, at, length)
    node[SIZE] = size + length
    int32s(node[ENDS])[slot + 1] = size + length
    return np.int64(0)


@called
def put_decimal(data: Any, at: int, size: int, upper: int, lower: int, node: Any, slot: int) -> Any:
    """Writes a decimal of ``size`` bytes, the highest first. Returns 0 or BAD_DECIMAL.

    ``upper``, ``lower``: the halves of the power of ten that it stays below. Powers of up to 18
    digits look at the lowest 64 bits alone, as Spark does.
    """
    if size == 0:
        return np.int64(BAD_DECIMAL)
    sign = data[at] >= 128
    filler = np.uint64(0xFFFFFFFFFFFFFFFF) if sign else np.uint64(0)
    low, high = filler, filler
    for i in range(size):
        byte = np.uint64(data[at + i])
        out = high >> np.uint64(56)
        if out != filler >> np.uint64(56) and (upper != 0 or lower >= 10**18 + 1 or lower < 0):
            return np.int64(BAD_DECIMAL)
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | byte
    if upper == 0 and 0 < lower <= 10**18:
        value = np.int64(low)
        if value <= -lower or value >= lower:
            return np.int64(BAD_DECIMAL)
        high = np.uint64(0xFFFFFFFFFFFFFFFF) if value < 0 else np.uint64(0)
    else:
        if (np.int64(high) < 0) != sign:
            return np.int64(BAD_DECIMAL)
        above, below = high, low
        if sign:
            below = ~low + np.uint64(1)
            above = ~high + (np.uint64(1) if below == np.uint64(0) else np.uint64(0))
        limit = np.uint64(upper)
        if above > limit or (above == limit and below >= np.uint64(lower)):
            return np.int64(BAD_DECIMAL)
    words = int64s(node[DATA])
    words[2 * slot] = np.int64(low)
    words[2 * slot + 1] = np.int64(high)
    return np.int64(0)
