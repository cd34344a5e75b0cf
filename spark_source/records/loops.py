"""The compiled half of ``kernel``: free functions on arrays, and nothing else.

Pass 1 (``measure``) checks every record and counts what the columns need; pass 2 (``fill_rows``,
``fill_headers``) reads again without checks and writes. One call of each handles all sections of
all partitions, and holds no GIL. It refuses to run while the bytes change underneath: pass 2 trusts
what pass 1 saw.

numba notices changes of this file only: whatever is compiled must stand here, constants too. Say
what a change costs: ``integration/benchmarks/decode.py``.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from spark_source.records import numba_cache

_CACHE = numba_cache.prepare(os.environ)

from numba import njit, types  # noqa: E402 (reads NUMBA_CACHE_DIR once, when imported)
from numba.core import cgutils  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

__all__ = ["fill_headers", "fill_rows", "measure"]

# Columns of the table of sections, one row each.
ADDRESS, SIZE, COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIME, MAX_TIME, LATE = 0, 1, 2, 3, 4, 5, 6, 7
START, END, PARTITION, TOPIC_AT, TOPIC_SIZE, WIDTH = 8, 9, 10, 11, 12, 13

# What pass 1 counts; then, for a fault, the section and the record where it is.
ROWS, KEY_BYTES, VALUE_BYTES, TOPIC_BYTES, KEY_NULLS, VALUE_NULLS = 0, 1, 2, 3, 4, 5
HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, HEADER_VALUE_NULLS, BARE_ROWS = 6, 7, 8, 9, 10
FAULT_SECTION, FAULT_RECORD, TOTALS = 11, 12, 13

# Fault's numbers, as far as they concern records.
MISSING, LEFTOVER, ENDS_EARLY, OVERLONG, RECORD_LENGTH, KEY_LENGTH = 1, 2, 3, 4, 5, 6
VALUE_LENGTH, HEADER_COUNT, HEADER_KEY_LENGTH, HEADER_VALUE_LENGTH = 7, 8, 9, 10
RECORD_SIZE, OFFSET_DELTA, TIMESTAMP = 11, 12, 13

MILLISECONDS_MAX = (2**63 - 1) // 1000


@intrinsic
def _bytes_at(typing: Any, address: Any) -> Any:
    """The bytes at an address: sections lie in many buffers, and one call reads them all."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint8)(types.int64), generate


@njit(nogil=True)
def _varint(data: Any, at: int, end: int, bits: int) -> Any:
    """The value and the position after it; or a fault, and -1 for the position."""
    raw = np.uint64(0)
    shift = 0
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
    return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at


@njit(nogil=True)
def _sound_varint(data: Any, at: int) -> Any:
    """The same without checks, for bytes that have passed them."""
    byte = np.uint64(data[at])
    at += 1
    raw = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while byte >= np.uint64(0x80):
        byte = np.uint64(data[at])
        at += 1
        raw |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
    return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at


@intrinsic
def _copy(typing: Any, to: Any, to_at: Any, data: Any, at: Any, size: Any) -> Any:
    """memcpy: filling the columns takes an eighth of the time that a loop over bytes takes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = builder.gep(args[0], [args[1]])
        source = builder.gep(args[2], [args[3]])
        cgutils.raw_memcpy(builder, target, source, args[4], 1)
        return context.get_dummy_value()

    pointer = types.CPointer(types.uint8)
    return types.void(pointer, types.int64, pointer, types.int64, types.int64), generate


@njit(nogil=True)
def _measure_headers(data: Any, at: int, end: int, sums: Any) -> Any:
    """Check one record's headers; their number, or a fault with position -1."""
    count, at = _varint(data, at, end, 32)
    if at < 0:
        return count, -1
    if count < 0:
        return HEADER_COUNT, -1
    sums[0] = sums[1] = sums[2] = 0
    for _ in range(count):
        size, at = _varint(data, at, end, 32)
        if at < 0:
            return size, -1
        if size < 0 or size > end - at:
            return HEADER_KEY_LENGTH, -1
        at += size
        sums[0] += size
        size, at = _varint(data, at, end, 32)
        if at < 0:
            return size, -1
        if size < -1 or size > end - at:
            return HEADER_VALUE_LENGTH, -1
        if size < 0:
            sums[2] += 1
        else:
            at += size
            sums[1] += size
    return count, at


@njit("int64(int64[:, ::1], int64[::1])", nogil=True, cache=_CACHE)
def measure(table: Any, totals: Any) -> Any:  # noqa: C901 (one check after the other)
    """Pass 1: count what the wanted rows need. Returns 0, or the first fault."""
    sums = np.zeros(3, np.int64)
    for section in range(len(table)):
        row = table[section]
        data, size, at = _bytes_at(row[ADDRESS]), row[SIZE], 0
        totals[FAULT_SECTION] = section
        for record in range(row[COUNT]):
            totals[FAULT_RECORD] = record
            if at == size:
                return MISSING
            length, at = _varint(data, at, size, 32)
            if at < 0:
                return length
            if length < 0 or length > size - at:
                return RECORD_LENGTH
            end = at + length
            if length == 0:
                return ENDS_EARLY
            time_delta, at = _varint(data, at + 1, end, 64)
            if at < 0:
                return time_delta
            offset_delta, at = _varint(data, at, end, 32)
            if at < 0:
                return offset_delta
            if offset_delta < 0 or offset_delta > row[LAST_DELTA]:
                return OFFSET_DELTA
            key, at = _varint(data, at, end, 32)
            if at < 0:
                return key
            if key < -1 or key > end - at:
                return KEY_LENGTH
            value, at = _varint(data, at + max(key, 0), end, 32)
            if at < 0:
                return value
            if value < -1 or value > end - at:
                return VALUE_LENGTH
            headers, at = _measure_headers(data, at + max(value, 0), end, sums)
            if at < 0:
                return headers
            if at != end:
                return RECORD_SIZE
            offset = row[BASE_OFFSET] + offset_delta
            if offset < row[START] or offset >= row[END]:
                continue
            if row[LATE]:
                time = row[MAX_TIME]
            else:
                base = row[BASE_TIME]
                time = base + time_delta
                if ((base ^ time) & (time_delta ^ time)) < 0:  # the sum wrapped
                    return TIMESTAMP
            if time < -MILLISECONDS_MAX or time > MILLISECONDS_MAX:
                return TIMESTAMP
            totals[ROWS] += 1
            totals[KEY_BYTES] += max(key, 0)
            totals[VALUE_BYTES] += max(value, 0)
            totals[TOPIC_BYTES] += row[TOPIC_SIZE]
            totals[KEY_NULLS] += key < 0
            totals[VALUE_NULLS] += value < 0
            totals[BARE_ROWS] += headers == 0
            if headers > 0:
                totals[HEADERS] += headers
                totals[HEADER_KEY_BYTES] += sums[0]
                totals[HEADER_VALUE_BYTES] += sums[1]
                totals[HEADER_VALUE_NULLS] += sums[2]
        totals[FAULT_RECORD] = row[COUNT]
        if at != size:
            return LEFTOVER
    return 0


@njit(
    "void(int64[:, ::1], uint8[::1], int32[::1], uint8[::1], uint8[::1], int32[::1], uint8[::1],"
    " uint8[::1], int32[::1], uint8[::1], int32[::1], int64[::1], int64[::1], int32[::1])",
    nogil=True,
    cache=_CACHE,
)
def fill_rows(
    table: Any,
    names: Any,
    key_ends: Any,
    key_data: Any,
    key_valid: Any,
    value_ends: Any,
    value_data: Any,
    value_valid: Any,
    topic_ends: Any,
    topic_data: Any,
    partitions: Any,
    offsets: Any,
    times: Any,
    time_types: Any,
) -> None:
    """Pass 2: write the columns of the wanted rows."""
    topic_names = _bytes_at(names.ctypes.data)
    topic_to = _bytes_at(topic_data.ctypes.data)
    key_to, value_to = _bytes_at(key_data.ctypes.data), _bytes_at(value_data.ctypes.data)
    n = key_at = value_at = topic_at = 0
    key_ends[0] = value_ends[0] = topic_ends[0] = 0
    for section in range(len(table)):
        row = table[section]
        data, end = _bytes_at(row[ADDRESS]), 0
        late, partition = row[LATE], row[PARTITION]
        name_from, name_size = row[TOPIC_AT], row[TOPIC_SIZE]
        for _ in range(row[COUNT]):
            length, at = _sound_varint(data, end)
            end = at + length
            time_delta, at = _sound_varint(data, at + 1)
            offset_delta, at = _sound_varint(data, at)
            offset = row[BASE_OFFSET] + offset_delta
            if offset < row[START] or offset >= row[END]:
                continue
            offsets[n] = offset
            times[n] = (row[MAX_TIME] if late else row[BASE_TIME] + time_delta) * 1000
            time_types[n] = late
            partitions[n] = partition
            _copy(topic_to, topic_at, topic_names, name_from, name_size)
            topic_at += name_size
            topic_ends[n + 1] = topic_at
            size, at = _sound_varint(data, at)
            if size >= 0:
                key_valid[n >> 3] |= 1 << (n & 7)
                _copy(key_to, key_at, data, at, size)
                key_at += size
                at += size
            key_ends[n + 1] = key_at
            size, at = _sound_varint(data, at)
            if size >= 0:
                value_valid[n >> 3] |= 1 << (n & 7)
                _copy(value_to, value_at, data, at, size)
                value_at += size
            value_ends[n + 1] = value_at
            n += 1


@njit(
    "void(int64[:, ::1], int32[::1], uint8[::1], int32[::1], uint8[::1], int32[::1], uint8[::1],"
    " uint8[::1])",
    nogil=True,
    cache=_CACHE,
)
def fill_headers(
    table: Any,
    list_ends: Any,
    list_valid: Any,
    key_ends: Any,
    key_data: Any,
    value_ends: Any,
    value_data: Any,
    value_valid: Any,
) -> None:
    """Pass 2 for the headers, only run where a row has one."""
    key_to, value_to = _bytes_at(key_data.ctypes.data), _bytes_at(value_data.ctypes.data)
    n = header = key_at = value_at = 0
    list_ends[0] = key_ends[0] = value_ends[0] = 0
    for section in range(len(table)):
        row = table[section]
        data, end = _bytes_at(row[ADDRESS]), 0
        for _ in range(row[COUNT]):
            length, at = _sound_varint(data, end)
            end = at + length
            _unused, at = _sound_varint(data, at + 1)
            offset_delta, at = _sound_varint(data, at)
            offset = row[BASE_OFFSET] + offset_delta
            if offset < row[START] or offset >= row[END]:
                continue
            for _ in range(2):  # past key and value
                size, at = _sound_varint(data, at)
                at += max(size, 0)
            count, at = _sound_varint(data, at)
            if count > 0:
                list_valid[n >> 3] |= 1 << (n & 7)
            for _ in range(count):
                size, at = _sound_varint(data, at)
                _copy(key_to, key_at, data, at, size)
                key_at += size
                size, at = _sound_varint(data, at + size)
                if size >= 0:
                    value_valid[header >> 3] |= 1 << (header & 7)
                    _copy(value_to, value_at, data, at, size)
                    value_at += size
                    at += size
                header += 1
                key_ends[header] = key_at
                value_ends[header] = value_at
            n += 1
            list_ends[n] = header
