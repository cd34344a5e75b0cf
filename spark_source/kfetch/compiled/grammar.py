"""The compiled grammar of a v2 record (kafka.apache.org/documentation/#record): varints, fields.

Every function that runs once for each record is inlined: a call costs as much as a short record.
They check every length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from kfetch.compiled.interface import (
    ENDS_EARLY,
    HEADER_COUNT,
    HEADER_KEY_LENGTH,
    HEADER_VALUE_LENGTH,
    KEY_LENGTH,
    MISSING,
    OFFSET_DELTA,
    OVERLONG,
    RECORD_LENGTH,
    RECORD_SIZE,
    VALUE_LENGTH,
)


@njit
def _long_varint(data: Any, at: int, end: int, bits: int) -> Any:
    raw, shift = np.uint64(0), 0
    while True:
        if at >= end:
            return ENDS_EARLY, -1
        byte = np.uint64(data[at])
        at += 1
        raw |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        if byte < np.uint64(0x80):
            break
        shift += 7
        if shift >= bits:
            return OVERLONG, -1
    # The last byte may carry bits above the type's: 4 of them fit into 32 bits, 1 into 64.
    if (bits == 32 and raw > np.uint64(0xFFFFFFFF)) or (shift == 63 and byte > np.uint64(1)):
        return OVERLONG, -1
    return _unzigzagged(raw), at


@njit(forceinline=True)
def _unzigzagged(raw: Any) -> Any:
    """Returns the signed number behind a zigzag number."""
    return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1))


@njit(forceinline=True)
def varint(data: Any, at: int, end: int, bits: int) -> Any:
    """Returns the value and the position after it; or a fault and -1."""
    if at < end and data[at] < 0x80:  # nearly always
        return _unzigzagged(np.uint64(data[at])), at + 1
    if at + 1 < end and data[at + 1] < 0x80:  # most of the others
        low = np.uint64(data[at]) & np.uint64(0x7F)
        return _unzigzagged(low | np.uint64(data[at + 1]) << np.uint64(7)), at + 2
    return _long_varint(data, at, end, bits)


@njit(forceinline=True)
def _headers_fault(code: int) -> Any:
    return code, (0, 0, 0), -1


@njit(forceinline=True)
def _measure_headers(data: Any, at: int, end: int) -> Any:
    """Checks one record's headers.

    Returns their number; the bytes of their keys, the bytes of their values and the number of null
    values; and the position after them. Or a fault, zeros and -1.
    """
    count, at = varint(data, at, end, 32)
    if at < 0:
        return _headers_fault(count)
    if count < 0:
        return _headers_fault(HEADER_COUNT)
    key_bytes = value_bytes = nulls = 0
    for _ in range(count):
        size, at = varint(data, at, end, 32)
        if at < 0:
            return _headers_fault(size)
        if size < 0 or size > end - at:
            return _headers_fault(HEADER_KEY_LENGTH)
        key_bytes += size
        size, at = varint(data, at + size, end, 32)
        if at < 0:
            return _headers_fault(size)
        if size < -1 or size > end - at:
            return _headers_fault(HEADER_VALUE_LENGTH)
        nulls += size < 0
        value_bytes += max(size, 0)
        at += max(size, 0)
    return count, (key_bytes, value_bytes, nulls), at


@njit(forceinline=True)
def _fault(code: int) -> Any:
    return -1, code, 0, 0, 0, 0, 0, 0, (0, 0, 0)


@njit(forceinline=True)
def read_record(data: Any, at: int, size: int, last_delta: int) -> Any:  # noqa: C901
    """Checks one record.

    Returns the position after it, time delta, offset delta, size and position of the key, size and
    position of the value, number of headers and their sums. Or -1 and a fault.
    """
    if at == size:
        return _fault(MISSING)
    length, at = varint(data, at, size, 32)
    if at < 0:
        return _fault(length)
    if length < 0 or length > size - at:
        return _fault(RECORD_LENGTH)
    end = at + length
    if length == 0:
        return _fault(ENDS_EARLY)
    time_delta, at = varint(data, at + 1, end, 64)
    if at < 0:
        return _fault(time_delta)
    offset_delta, at = varint(data, at, end, 32)
    if at < 0:
        return _fault(offset_delta)
    if offset_delta < 0 or offset_delta > last_delta:
        return _fault(OFFSET_DELTA)
    key, key_at = varint(data, at, end, 32)
    if key_at < 0:
        return _fault(key)
    if key < -1 or key > end - key_at:
        return _fault(KEY_LENGTH)
    value, value_at = varint(data, key_at + max(key, 0), end, 32)
    if value_at < 0:
        return _fault(value)
    if value < -1 or value > end - value_at:
        return _fault(VALUE_LENGTH)
    headers, sums, at = _measure_headers(data, value_at + max(value, 0), end)
    if at < 0:
        return _fault(headers)
    if at != end:
        return _fault(RECORD_SIZE)
    return at, time_delta, offset_delta, key, key_at, value, value_at, headers, sums
