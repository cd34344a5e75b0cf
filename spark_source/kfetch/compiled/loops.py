"""The compiled half of ``kernel``: free functions on C pointers, and nothing else.

``fill_rows`` checks every record and writes what it holds but the headers, which ``fill_headers``
adds where there are any; ``fill_constants`` writes what a section's records have in common. One
call of each handles all sections of all partitions, and holds no GIL.
The loops allocate nothing and raise nothing, so machine code stands alone (``native`` checks that).
It refuses to run while the bytes change underneath: ``fill_headers`` trusts what ``fill_rows`` saw.

Only ``native`` imports this, when there is no compiled code that fits: it imports numba. Say what a
change costs: ``integration/benchmarks/decode.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from kfetch.compiled.crc import START as CRC_START
from kfetch.compiled.crc import more as crc_of_more
from kfetch.compiled.grammar import read_record, sound_varint
from kfetch.compiled.layout import (
    ADDRESS,
    ATTRIBUTES_AT,
    BAD_CRC,
    BASE_OFFSET,
    BASE_TIME,
    CHECKED,
    COUNT,
    CRC,
    END,
    FAULT_RECORD,
    FAULT_SECTION,
    HEADED_ROWS,
    HEADER_BYTES,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADER_VALUE_NULLS,
    HEADERS,
    KEY_BYTES,
    KEY_NULLS,
    LAST_DELTA,
    LATE,
    LEFTOVER,
    MAX_TIME,
    MILLISECONDS_MAX,
    NAME,
    NAME_BYTES,
    PARAMETERS,
    PARTITION,
    ROWS,
    SIZE,
    SLACK,
    SLICE,
    SLICE_WIDTH,
    START,
    TIME_TYPE,
    TIMESTAMP,
    TOPIC_BYTES,
    VALUE_BYTES,
    VALUE_NULLS,
    WANTED,
    WIDTH,
)
from kfetch.compiled.listing import list_batches
from kfetch.compiled.pointers import bytes_at, copy, row_of

__all__ = ["compiled", "fill_constants", "fill_headers", "fill_rows", "list_batches"]


@njit(forceinline=True)
def _copy_some(to: Any, to_at: int, data: Any, at: int, count: int, size: int) -> None:
    """Copy bytes, by SLACK if as many more lie in the ``size`` of ``data``: a call costs more."""
    if at + count + SLACK > size:
        copy(to, to_at, data, at, count)
        return
    done = 0
    while done < count:
        copy(to, to_at + done, data, at + done, SLACK)
        done += SLACK


@njit(forceinline=True)
def _add_headers(totals: Any, headers: int, sums: Any) -> None:
    key_bytes, value_bytes, nulls = sums
    totals[HEADED_ROWS] += 1
    totals[HEADERS] += headers
    totals[HEADER_KEY_BYTES] += key_bytes
    totals[HEADER_VALUE_BYTES] += value_bytes
    totals[HEADER_VALUE_NULLS] += nulls


@njit(forceinline=True)
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
PIECE, BLOCK = 8 << 10, 4 << 10
NO_HEADERS = 0  # no headers lie there


@njit(forceinline=True)
def _summed(state: Any, data: Any, summed: int, at: int, size: int) -> Any:
    """The CRC's state and position, at least a piece ahead of where records are read or copied.

    So they are in the CPU's nearest cache then, and memory is read once.
    """
    if at < summed:
        return state, summed
    ahead = min(at + PIECE, size)
    return crc_of_more(state, data, summed, ahead), ahead


# Longer than functions are here: cut into inlined helpers (fields, a section's end) it was slower,
# by 2 to 7 % at 1 KiB a record and 1 to 3 % at 100 B.
def fill_rows(  # noqa: C901
    table: Any,
    sections: int,
    slices: Any,
    totals: Any,
    key_ends: Any,
    key_data: Any,
    key_valid: Any,
    value_ends: Any,
    value_data: Any,
    value_valid: Any,
    offsets: Any,
    times: Any,
    places: Any,
) -> Any:
    """Check every record and write the columns of the wanted ones. Returns 0, or the first fault.

    The buffers have room for all that the sections can hold, and SLACK bytes of data more.
    """
    n = key_all = value_all = key_nulls = value_nulls = topic_all = 0
    key_ends[0] = value_ends[0] = 0
    for section in range(sections):
        row = row_of(table, section, WIDTH)
        data, size, after, before = bytes_at(row[ADDRESS]), row[SIZE], 0, n
        base, last_delta, first, end = row[BASE_OFFSET], row[LAST_DELTA], row[START], row[END]
        totals[FAULT_SECTION] = section
        expected, state = row[CRC], CRC_START
        summed = size + 1 if expected == CHECKED else -COVERED
        for record in range(row[COUNT]):
            state, summed = _summed(state, data, summed, after, size)
            after, delta, offset, key, key_at, value, value_at, headers, sums = read_record(
                data, after, size, last_delta
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
            offsets[n], times[n], places[n] = offset, time * 1000, NO_HEADERS
            if headers > 0:
                places[n] = value_at + max(value, 0)
                _add_headers(totals, headers, sums)
            byte, bit = n >> 3, n & 7
            if bit == 0:
                key_valid[byte] = value_valid[byte] = 0
            if key >= 0:
                key_valid[byte] |= 1 << bit
                _copy_some(key_data, key_all, data, key_at, key, size)
                key_all += key
            if value >= 0:
                value_valid[byte] |= 1 << bit
                while value > BLOCK:
                    copy(value_data, value_all, data, value_at, BLOCK)
                    value, value_at, value_all = value - BLOCK, value_at + BLOCK, value_all + BLOCK
                    state, summed = _summed(state, data, summed, value_at, size)
                _copy_some(value_data, value_all, data, value_at, value, size)
                value_all += value
            n += 1
            key_ends[n], value_ends[n] = key_all, value_all
            key_nulls += key < 0
            value_nulls += value < 0
        totals[FAULT_RECORD] = row[COUNT]
        if after != size:
            return LEFTOVER
        state = crc_of_more(state, data, summed, size)
        if expected != CHECKED and expected != np.int64(state ^ CRC_START):
            return BAD_CRC
        row[WANTED] = n - before
        topic_all += row[WANTED] * row_of(slices, row[SLICE], SLICE_WIDTH)[NAME_BYTES]
    totals[ROWS], totals[KEY_BYTES], totals[VALUE_BYTES] = n, key_all, value_all
    totals[KEY_NULLS], totals[VALUE_NULLS], totals[TOPIC_BYTES] = key_nulls, value_nulls, topic_all
    return 0


@njit
def _repeat(to: Any, to_at: int, data: Any, size: int, times: int) -> None:
    """Copy bytes so many times, one behind the other: as many as are there already at once."""
    done, all_bytes = min(size, size * times), size * times
    copy(to, to_at, data, 0, done)
    while done < all_bytes:
        count = min(done, all_bytes - done)
        copy(to, to_at + done, to, to_at, count)
        done += count


def fill_constants(
    table: Any,
    sections: int,
    slices: Any,
    topic_ends: Any,
    topic_data: Any,
    partitions: Any,
    time_types: Any,
) -> int:
    """Write the columns that are the same for all rows of a section. Returns 0."""
    n = at = 0
    topic_ends[0] = 0
    for section in range(sections):
        row = row_of(table, section, WIDTH)
        part = row_of(slices, row[SLICE], SLICE_WIDTH)
        rows, size, partition, kind = row[WANTED], part[NAME_BYTES], part[PARTITION], row[TIME_TYPE]
        _repeat(topic_data, at, bytes_at(part[NAME]), size, rows)
        for each in range(rows):
            partitions[n + each] = partition
            time_types[n + each] = kind
            topic_ends[n + each + 1] = at + (each + 1) * size
        n += rows
        at += rows * size
    return 0


def fill_headers(
    table: Any,
    sections: int,
    places: Any,
    list_ends: Any,
    list_valid: Any,
    key_ends: Any,
    key_data: Any,
    value_ends: Any,
    value_data: Any,
    value_valid: Any,
) -> int:
    """Write the headers of the wanted rows; the records have passed ``fill_rows``. Returns 0.

    The data may be written SLACK bytes further.
    """
    n = header = key_at = value_at = 0
    list_ends[0] = key_ends[0] = value_ends[0] = 0
    for section in range(sections):
        row = row_of(table, section, WIDTH)
        data, all_bytes = bytes_at(row[ADDRESS]), row[SIZE]
        for _ in range(row[WANTED]):
            count, at = 0, places[n]
            if n & 7 == 0:
                list_valid[n >> 3] = 0
            if at != NO_HEADERS:
                list_valid[n >> 3] |= 1 << (n & 7)
                count, at = sound_varint(data, at)
            for _ in range(count):
                size, at = sound_varint(data, at)
                _copy_some(key_data, key_at, data, at, size, all_bytes)
                key_at += size
                size, at = sound_varint(data, at + size)
                if header & 7 == 0:
                    value_valid[header >> 3] = 0
                if size >= 0:
                    value_valid[header >> 3] |= 1 << (header & 7)
                    _copy_some(value_data, value_at, data, at, size, all_bytes)
                    value_at += size
                    at += size
                header += 1
                key_ends[header], value_ends[header] = key_at, value_at
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
