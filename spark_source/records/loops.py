"""The compiled half of ``kernel``: free functions on C pointers, and nothing else.

``fill_rows`` checks every record and writes all columns but the headers, which ``fill_headers``
adds where there are any. One call of each handles all sections of all partitions, and holds no GIL.
The loops allocate nothing and raise nothing, so machine code stands alone (``native`` checks that).
It refuses to run while the bytes change underneath: ``fill_headers`` trusts what ``fill_rows`` saw.

Only ``native`` imports this, when there is no compiled code that fits: it imports numba. Say what a
change costs: ``integration/benchmarks/decode.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from spark_source.records.crc import START as CRC_START
from spark_source.records.crc import more as crc_of_more
from spark_source.records.layout import (
    ADDRESS,
    ATTRIBUTES_AT,
    BAD_CRC,
    BASE_OFFSET,
    BASE_TIME,
    CHECKED,
    COUNT,
    CRC,
    END,
    ENDS_EARLY,
    FAULT_RECORD,
    FAULT_SECTION,
    HEADED_ROWS,
    HEADER_BYTES,
    HEADER_COUNT,
    HEADER_KEY_BYTES,
    HEADER_KEY_LENGTH,
    HEADER_VALUE_BYTES,
    HEADER_VALUE_LENGTH,
    HEADER_VALUE_NULLS,
    HEADERS,
    KEY_BYTES,
    KEY_LENGTH,
    KEY_NULLS,
    LAST_DELTA,
    LATE,
    LEFTOVER,
    MAX_TIME,
    MILLISECONDS_MAX,
    MISSING,
    OFFSET_DELTA,
    OVERLONG,
    OWN_KEY_BYTES,
    OWN_NULLS,
    OWN_VALUE_BYTES,
    PARAMETERS,
    RECORD_LENGTH,
    RECORD_SIZE,
    ROWS,
    SIZE,
    SLACK,
    START,
    TIMESTAMP,
    VALUE_BYTES,
    VALUE_LENGTH,
    VALUE_NULLS,
    WANTED,
)
from spark_source.records.listing import list_batches
from spark_source.records.pointers import bytes_at, copy, row_of

__all__ = ["compiled", "fill_headers", "fill_rows", "list_batches"]


@njit
def _varint(data: Any, at: int, end: int, bits: int) -> Any:
    """The value and the position after it; or a fault, and -1 for the position."""
    if at >= end:
        return ENDS_EARLY, -1
    byte = np.uint64(data[at])
    if byte < np.uint64(0x80):  # nearly always
        return np.int64(byte >> np.uint64(1)) ^ -np.int64(byte & np.uint64(1)), at + 1
    raw, shift = byte & np.uint64(0x7F), 7
    at += 1
    if at < end and data[at] < 0x80:  # most of the others
        raw |= np.uint64(data[at]) << np.uint64(7)
        return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at + 1
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


@njit
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


@njit
def _copy_some(to: Any, to_at: int, data: Any, at: int, count: int, size: int) -> None:
    """Copy bytes; a few are copied as SLACK at once, if as many lie in the ``size`` of ``data``."""
    if count <= SLACK and at + SLACK <= size:
        copy(to, to_at, data, at, SLACK)
    else:
        copy(to, to_at, data, at, count)


@njit
def _measure_headers(data: Any, at: int, end: int, totals: Any) -> Any:
    """Check one record's headers; their number, or a fault with position -1."""
    count, at = _varint(data, at, end, 32)
    if at < 0:
        return count, -1
    if count <= 0:
        return (HEADER_COUNT, -1) if count < 0 else (count, at)
    totals[OWN_KEY_BYTES] = totals[OWN_VALUE_BYTES] = totals[OWN_NULLS] = 0
    for _ in range(count):
        size, at = _varint(data, at, end, 32)
        if at < 0:
            return size, -1
        if size < 0 or size > end - at:
            return HEADER_KEY_LENGTH, -1
        at += size
        totals[OWN_KEY_BYTES] += size
        size, at = _varint(data, at, end, 32)
        if at < 0:
            return size, -1
        if size < -1 or size > end - at:
            return HEADER_VALUE_LENGTH, -1
        if size < 0:
            totals[OWN_NULLS] += 1
        else:
            at += size
            totals[OWN_VALUE_BYTES] += size
    return count, at


@njit
def _fault(code: int) -> Any:
    return -1, code, 0, 0, 0, 0, 0, 0


@njit
def _record(data: Any, at: int, size: int, last_delta: int, totals: Any) -> Any:  # noqa: C901
    """Check one record. Position after it, time and offset delta, size and place of key and value,
    number of headers, whose sums are in ``totals``; or -1 and a fault."""
    if at == size:
        return _fault(MISSING)
    length, at = _varint(data, at, size, 32)
    if at < 0:
        return _fault(length)
    if length < 0 or length > size - at:
        return _fault(RECORD_LENGTH)
    end = at + length
    if length == 0:
        return _fault(ENDS_EARLY)
    time_delta, at = _varint(data, at + 1, end, 64)
    if at < 0:
        return _fault(time_delta)
    offset_delta, at = _varint(data, at, end, 32)
    if at < 0:
        return _fault(offset_delta)
    if offset_delta < 0 or offset_delta > last_delta:
        return _fault(OFFSET_DELTA)
    key, key_at = _varint(data, at, end, 32)
    if key_at < 0:
        return _fault(key)
    if key < -1 or key > end - key_at:
        return _fault(KEY_LENGTH)
    value, value_at = _varint(data, key_at + max(key, 0), end, 32)
    if value_at < 0:
        return _fault(value)
    if value < -1 or value > end - value_at:
        return _fault(VALUE_LENGTH)
    headers, at = _measure_headers(data, value_at + max(value, 0), end, totals)
    if at < 0:
        return _fault(headers)
    if at != end:
        return _fault(RECORD_SIZE)
    return at, time_delta, offset_delta, key, key_at, value, value_at, headers


@njit
def _add_headers(totals: Any, headers: int) -> None:
    totals[HEADED_ROWS] += 1
    totals[HEADERS] += headers
    totals[HEADER_KEY_BYTES] += totals[OWN_KEY_BYTES]
    totals[HEADER_VALUE_BYTES] += totals[OWN_VALUE_BYTES]
    totals[HEADER_VALUE_NULLS] += totals[OWN_NULLS]


@njit
def _time(row: Any, delta: int) -> Any:
    """A record's milliseconds, and whether Spark's microseconds can hold them."""
    time = row[MAX_TIME]
    if not row[LATE]:
        base = row[BASE_TIME]
        time = base + delta
        if ((base ^ time) & (delta ^ time)) < 0:  # the sum wrapped
            return time, False
    return time, -MILLISECONDS_MAX <= time <= MILLISECONDS_MAX


COVERED = HEADER_BYTES - ATTRIBUTES_AT  # by the CRC, of the header before the records
PIECE = 32 << 10


def fill_rows(  # noqa: C901
    table: Any,
    sections: int,
    totals: Any,
    key_ends: Any,
    key_data: Any,
    key_valid: Any,
    value_ends: Any,
    value_data: Any,
    value_valid: Any,
    offsets: Any,
    times: Any,
) -> Any:
    """Check every record and write the columns of the wanted ones. Returns 0, or the first fault.

    The buffers have room for all that the sections can hold, and SLACK bytes of data more.
    """
    n = key_all = value_all = key_nulls = value_nulls = 0
    key_ends[0] = value_ends[0] = 0
    for section in range(sections):
        row = row_of(table, section)
        data, size, after, before = bytes_at(row[ADDRESS]), row[SIZE], 0, n
        base, last_delta, first, end = row[BASE_OFFSET], row[LAST_DELTA], row[START], row[END]
        totals[FAULT_SECTION] = section
        # The CRC runs ahead of the records by a piece, which they find in the CPU's cache.
        expected, state = row[CRC], CRC_START
        summed = size if expected == CHECKED else -COVERED
        for record in range(row[COUNT]):
            if after >= summed:
                ahead = min(after + PIECE, size)
                state, summed = crc_of_more(state, data, summed, ahead), ahead
            after, delta, offset, key, key_at, value, value_at, headers = _record(
                data, after, size, last_delta, totals
            )
            if after < 0:
                totals[FAULT_RECORD] = record
                return delta
            offset += base
            if offset < first or offset >= end:
                continue
            time, fits = _time(row, delta)
            if not fits:
                totals[FAULT_RECORD] = record
                return TIMESTAMP
            offsets[n] = offset
            times[n] = time * 1000
            if key >= 0:
                key_valid[n >> 3] |= 1 << (n & 7)
                _copy_some(key_data, key_all, data, key_at, key, size)
                key_all += key
            if value >= 0:
                value_valid[n >> 3] |= 1 << (n & 7)
                _copy_some(value_data, value_all, data, value_at, value, size)
                value_all += value
            n += 1
            key_ends[n] = key_all
            value_ends[n] = value_all
            key_nulls += key < 0
            value_nulls += value < 0
            if headers > 0:
                _add_headers(totals, headers)
        totals[FAULT_RECORD] = row[COUNT]
        if after != size:
            return LEFTOVER
        crc = np.int64(crc_of_more(state, data, summed, size) ^ CRC_START)
        if expected != CHECKED and expected != crc:
            return BAD_CRC
        row[WANTED] = n - before
    totals[ROWS], totals[KEY_BYTES], totals[VALUE_BYTES] = n, key_all, value_all
    totals[KEY_NULLS], totals[VALUE_NULLS] = key_nulls, value_nulls
    return 0


def fill_headers(
    table: Any,
    sections: int,
    list_ends: Any,
    list_valid: Any,
    key_ends: Any,
    key_data: Any,
    value_ends: Any,
    value_data: Any,
    value_valid: Any,
) -> int:
    """Write the headers of the wanted rows; the records have passed ``fill_rows``. Returns 0."""
    n = header = key_at = value_at = 0
    list_ends[0] = key_ends[0] = value_ends[0] = 0
    for section in range(sections):
        row = row_of(table, section)
        data, end = bytes_at(row[ADDRESS]), 0
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
                copy(key_data, key_at, data, at, size)
                key_at += size
                size, at = _sound_varint(data, at + size)
                if size >= 0:
                    value_valid[header >> 3] |= 1 << (header & 7)
                    copy(value_data, value_at, data, at, size)
                    value_at += size
                    at += size
                header += 1
                key_ends[header] = key_at
                value_ends[header] = value_at
            n += 1
            list_ends[n] = header
    return 0


def compiled(name: str) -> tuple[str, str]:
    """The symbol of the function of that name, and LLVM's text of all that it needs."""
    kinds = [getattr(types, each.rstrip("*")) for each in PARAMETERS[name]]
    listed = zip(PARAMETERS[name], kinds, strict=True)
    wanted = tuple(types.CPointer(k) if each.endswith("*") else k for each, k in listed)
    # Without wrappers for Python and C, which would need numba at run time.
    alone = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    function = njit(types.int64(*wanted), **alone)(globals()[name])
    return function.overloads[wanted].fndesc.llvm_func_name, function.inspect_llvm(wanted)
