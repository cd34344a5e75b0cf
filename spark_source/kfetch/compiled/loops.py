"""The compiled half of ``kernel``: free functions on C pointers, and nothing else.

``fill_rows`` checks every record and writes its fields except the headers. ``fill_headers`` writes
those. ``fill_constants`` writes the columns that are equal for all records of a section. One call
of each handles all sections of all partitions, without the GIL. ``wanted`` names the columns to
write. The loops check every record, whatever the columns are.

The loops allocate nothing and raise nothing, so the machine code stands alone (``native`` checks
it). The bytes must not change meanwhile: ``fill_headers`` trusts the checks of ``fill_rows``.

Only ``native`` imports this module, when no cached code fits, because it imports numba. Measure
every change with ``integration/benchmarks/decode.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from kfetch.compiled.crc import START as CRC_START
from kfetch.compiled.crc import more as crc_of_more
from kfetch.compiled.grammar import read_record, varint
from kfetch.compiled.interface import (
    ADDRESS,
    BASE_OFFSET,
    BASE_TIME,
    CHECKED,
    CRC,
    CRC_FAULT,
    END,
    FAULT_RECORD,
    FAULT_SECTION,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADER_VALUE_NULLS,
    HEADERS,
    KEY_BYTES,
    KEY_DATA,
    KEY_NULLS,
    LAST_DELTA,
    LEFTOVER,
    MAX_TIME,
    PARTITION,
    PARTITIONS,
    RECORD_COUNT,
    ROWS,
    ROWS_WITH_HEADERS,
    ROWS_WRITTEN,
    SECTION_WIDTH,
    SIZE,
    SLACK,
    SLICE_NUMBER,
    SLICE_WIDTH,
    START,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TIMESTAMP_TYPES,
    TOPIC_ADDRESS,
    TOPIC_BYTES,
    TOPIC_NAME_BYTES,
    TOPICS,
    VALUE_BYTES,
    VALUE_DATA,
    VALUE_NULLS,
)
from kfetch.compiled.listing import list_batches, walk_batches
from kfetch.compiled.pointers import bytes_at, copy, row_of
from kfetch.records.format import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    LOG_APPEND,
    MILLISECONDS_MAX,
)

__all__ = [
    "fill_constants",
    "fill_headers",
    "fill_rows",
    "list_batches",
    "walk_batches",
]


@njit(forceinline=True)
def _copy_some(to: Any, to_at: int, data: Any, at: int, count: int, size: int) -> None:
    """Copies ``count`` bytes, in steps of SLACK where ``data`` has that many more.

    A call with a variable size costs more. ``size``: the bytes of ``data``.
    """
    if at + count + SLACK > size:
        copy(to, to_at, data, at, count)
        return
    copied = 0
    while copied < count:
        copy(to, to_at + copied, data, at + copied, SLACK)
        copied += SLACK


@njit(forceinline=True)
def _add_headers(totals: Any, headers: int, sums: Any) -> None:
    key_bytes, value_bytes, nulls = sums
    totals[ROWS_WITH_HEADERS] += 1
    totals[HEADERS] += headers
    totals[HEADER_KEY_BYTES] += key_bytes
    totals[HEADER_VALUE_BYTES] += value_bytes
    totals[HEADER_VALUE_NULLS] += nulls


@njit(forceinline=True)
def _time(section: Any, delta: int) -> Any:
    """Returns a record's milliseconds, and whether Spark's microseconds can hold them."""
    time = section[MAX_TIME]
    if section[TIMESTAMP_TYPE] != LOG_APPEND:
        base = section[BASE_TIME]
        time = base + delta
        if ((base ^ time) & (delta ^ time)) < 0:  # the sum wrapped
            return time, False
    return time, -MILLISECONDS_MAX <= time <= MILLISECONDS_MAX


HEADER_BYTES_IN_CRC = HEADER_BYTES - ATTRIBUTES_AT  # the CRC covers them too
PIECE, BLOCK = 8 << 10, 4 << 10
NO_HEADERS = 0  # a position where no headers lie


@njit(forceinline=True)
def _crc_ahead(state: Any, data: Any, crc_at: int, at: int, size: int) -> Any:
    """Returns the CRC's state and position, at least a piece ahead of position ``at``.

    The next records are in the CPU's nearest cache then, so memory is read once.
    """
    if at < crc_at:
        return state, crc_at
    ahead = min(at + PIECE, size)
    return crc_of_more(state, data, crc_at, ahead), ahead


@njit(forceinline=True)
def _advanced(remaining: int, read_at: int, write_at: int) -> Any:
    """Returns the three positions after the copy of one block."""
    return remaining - BLOCK, read_at + BLOCK, write_at + BLOCK


@njit(forceinline=True)
def _offsets(section: Any) -> Any:
    return section[BASE_OFFSET], section[LAST_DELTA], section[START], section[END]


@njit(forceinline=True)
def _topic_bytes(slices: Any, section: Any) -> Any:
    return row_of(slices, section[SLICE_NUMBER], SLICE_WIDTH)[TOPIC_NAME_BYTES]


# One long function: inlined helpers (fields, a section's end) made it 2 to 7 % slower at 1 KiB a
# record, and 1 to 3 % slower at 100 B.
def fill_rows(  # noqa: C901, PLR0915
    table: Any,
    sections: int,
    slices: Any,
    wanted: int,
    totals: Any,
    key_ends: Any,
    key_data: Any,
    key_valid: Any,
    value_ends: Any,
    value_data: Any,
    value_valid: Any,
    offsets: Any,
    times: Any,
    header_positions: Any,
) -> Any:
    """Checks every record and writes the columns of those in range. Returns 0 or the first fault.

    The caller makes the buffers large enough for all records, and for SLACK bytes of data more.
    Only ``wanted`` keys and values are copied. In place of another column that nobody wants, the
    caller passes the buffer of one that is written after it: the last write counts.
    """
    copies_keys, copies_values = (wanted & KEY_DATA) != 0, (wanted & VALUE_DATA) != 0
    rows = keys_size = values_size = key_nulls = value_nulls = topics_size = 0
    key_ends[0] = value_ends[0] = 0
    for number in range(sections):
        section = row_of(table, number, SECTION_WIDTH)
        data, size, after, first_row = bytes_at(section[ADDRESS]), section[SIZE], 0, rows
        base, last_delta, start, end = _offsets(section)
        totals[FAULT_SECTION] = number
        expected, state = section[CRC], CRC_START
        crc_at = size + 1 if expected == CHECKED else -HEADER_BYTES_IN_CRC
        for record in range(section[RECORD_COUNT]):
            state, crc_at = _crc_ahead(state, data, crc_at, after, size)
            after, time_delta, offset, key_size, key_at, value_size, value_at, headers, sums = (
                read_record(data, after, size, last_delta)
            )
            if after < 0:
                totals[FAULT_RECORD] = record
                return time_delta
            offset += base
            if offset < start:
                continue
            start = offset + 1  # as in Kafka's consumer, no offset comes twice, or later
            if offset >= end:
                continue
            time, in_range = _time(section, time_delta)
            if not in_range:
                totals[FAULT_RECORD] = record
                return TIMESTAMP
            header_positions[rows] = NO_HEADERS
            if headers > 0:
                header_positions[rows] = value_at + max(value_size, 0)
                _add_headers(totals, headers, sums)
            times[rows] = time * 1000
            offsets[rows] = offset
            byte, bit = rows >> 3, rows & 7
            if bit == 0:
                key_valid[byte] = value_valid[byte] = 0
            if key_size >= 0:
                key_valid[byte] |= 1 << bit
                if copies_keys:
                    _copy_some(key_data, keys_size, data, key_at, key_size, size)
                keys_size += key_size
            if value_size >= 0:
                value_valid[byte] |= 1 << bit
                if copies_values:
                    while value_size > BLOCK:
                        copy(value_data, values_size, data, value_at, BLOCK)
                        value_size, value_at, values_size = _advanced(
                            value_size, value_at, values_size
                        )
                        state, crc_at = _crc_ahead(state, data, crc_at, value_at, size)
                    _copy_some(value_data, values_size, data, value_at, value_size, size)
                values_size += value_size
            rows += 1
            key_ends[rows] = keys_size
            value_ends[rows] = values_size
            key_nulls += key_size < 0
            value_nulls += value_size < 0
        totals[FAULT_RECORD] = section[RECORD_COUNT]
        if after != size:
            return LEFTOVER
        state = crc_of_more(state, data, crc_at, size)
        if expected != CHECKED and expected != np.int64(state ^ CRC_START):
            return CRC_FAULT
        section[ROWS_WRITTEN] = rows - first_row
        topics_size += section[ROWS_WRITTEN] * _topic_bytes(slices, section)
    totals[ROWS], totals[KEY_BYTES], totals[VALUE_BYTES] = rows, keys_size, values_size
    totals[KEY_NULLS], totals[VALUE_NULLS], totals[TOPIC_BYTES] = (
        key_nulls,
        value_nulls,
        topics_size,
    )
    return 0


@njit
def _repeat(to: Any, to_at: int, data: Any, size: int, times: int) -> None:
    """Writes the bytes ``times`` times in a row. Each copy doubles the bytes written."""
    copied, total = min(size, size * times), size * times
    copy(to, to_at, data, 0, copied)
    while copied < total:
        count = min(copied, total - copied)
        copy(to, to_at + copied, to, to_at, count)
        copied += count


def fill_constants(
    table: Any,
    sections: int,
    slices: Any,
    wanted: int,
    topic_ends: Any,
    topic_data: Any,
    partitions: Any,
    timestamp_types: Any,
) -> int:
    """Writes the ``wanted`` columns that are equal for all rows of a section. Returns 0."""
    rows = at = 0
    topic_ends[0] = 0
    for number in range(sections):
        section = row_of(table, number, SECTION_WIDTH)
        slice_ = row_of(slices, section[SLICE_NUMBER], SLICE_WIDTH)
        section_rows, size = section[ROWS_WRITTEN], slice_[TOPIC_NAME_BYTES]
        partition, timestamp_type = slice_[PARTITION], section[TIMESTAMP_TYPE]
        if wanted & TOPICS:
            _repeat(topic_data, at, bytes_at(slice_[TOPIC_ADDRESS]), size, section_rows)
            for i in range(section_rows):
                topic_ends[rows + i + 1] = at + (i + 1) * size
        if wanted & PARTITIONS:
            for i in range(section_rows):
                partitions[rows + i] = partition
        if wanted & TIMESTAMP_TYPES:
            for i in range(section_rows):
                timestamp_types[rows + i] = timestamp_type
        rows += section_rows
        at += section_rows * size
    return 0


def fill_headers(
    table: Any,
    sections: int,
    header_positions: Any,
    list_ends: Any,
    list_valid: Any,
    key_ends: Any,
    key_data: Any,
    value_ends: Any,
    value_data: Any,
    value_valid: Any,
) -> int:
    """Writes the headers of the rows that ``fill_rows`` wrote. Returns 0.

    It may write up to SLACK bytes behind the data.
    """
    rows = header = key_at = value_at = 0
    list_ends[0] = key_ends[0] = value_ends[0] = 0
    for number in range(sections):
        section = row_of(table, number, SECTION_WIDTH)
        data, all_bytes = bytes_at(section[ADDRESS]), section[SIZE]
        for _ in range(section[ROWS_WRITTEN]):
            count, at = 0, header_positions[rows]
            if rows & 7 == 0:
                list_valid[rows >> 3] = 0
            if at != NO_HEADERS:
                list_valid[rows >> 3] |= 1 << (rows & 7)
                count, at = varint(data, at, all_bytes, 32)
            for _ in range(count):
                size, at = varint(data, at, all_bytes, 32)
                _copy_some(key_data, key_at, data, at, size, all_bytes)
                key_at += size
                size, at = varint(data, at + size, all_bytes, 32)
                if header & 7 == 0:
                    value_valid[header >> 3] = 0
                if size >= 0:
                    value_valid[header >> 3] |= 1 << (header & 7)
                    _copy_some(value_data, value_at, data, at, size, all_bytes)
                    value_at += size
                    at += size
                header += 1
                key_ends[header], value_ends[header] = key_at, value_at
            rows += 1
            list_ends[rows] = header
    return 0
