"""Walks over batch headers in compiled code, and lists the record batches of a slice.

``list_batches`` writes one row of the table for each plain batch: v2, uncompressed and without a
fault in its header. It stops before any other batch. Then ``records.sections`` reads the whole
slice instead. ``walk_batches`` needs no table, and takes compressed batches too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from kfetch.compiled.crc import crc32c
from kfetch.compiled.interface import (
    ADDRESS,
    BASE_OFFSET,
    BASE_TIME,
    CHECKED,
    CRC,
    END,
    FIRST_AT,
    LAST_AT,
    LAST_DELTA,
    LAST_OFFSET,
    LEADER_EPOCH,
    LISTED_ALL,
    MAX_TIME,
    NEXT_AT,
    NOT_PLAIN,
    PREVIOUS_AT,
    RECORD_COUNT,
    ROWS_LISTED,
    ROWS_WRITTEN,
    SECTION_WIDTH,
    SIZE,
    SLICE_NUMBER,
    START,
    TABLE_FULL,
    TIMESTAMP_TYPE,
    WALKED,
    WALKED_OFFSET,
    WALKED_TO,
)
from kfetch.compiled.pointers import address_of, bytes_from, row_of
from kfetch.records.format import (
    ATTRIBUTES_AT,
    BASE_TIME_AT,
    CODEC,
    CONTROL,
    COUNT_AT,
    CRC_AT,
    CREATE,
    HEADER_BYTES,
    LAST_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_APPEND,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAGIC_V2,
    MAX_TIME_AT,
    OFFSET_MAX,
    PREFIX_BYTES,
)


@njit
def _int_at(data: Any, at: int, size: int) -> Any:
    """Returns the signed big-endian number in the ``size`` bytes from ``at`` on."""
    number = np.int64(data[at])
    number = number - 256 if number >= 128 else number
    for i in range(1, size):
        number = (number << 8) | np.int64(data[at + i])
    return number


@njit
def _crc_matches(data: Any, size: int) -> Any:
    """Returns whether a batch's CRC matches its bytes."""
    crc = _int_at(data, CRC_AT, 4) & 0xFFFFFFFF
    return crc == crc32c(bytes_from(data, ATTRIBUTES_AT), size - ATTRIBUTES_AT)


@njit
def _is_sound(data: Any, size: int, last_offset: int) -> Any:
    """Returns whether a batch is v2 and has no fault in its header.

    ``records.batch`` checks the same.
    """
    if size < HEADER_BYTES or data[MAGIC_AT] != MAGIC_V2:
        return False
    base, last_delta = _int_at(data, 0, 8), _int_at(data, LAST_DELTA_AT, 4)
    if base < 0 or last_delta < 0 or base > OFFSET_MAX - last_delta:
        return False
    return base > last_offset and _int_at(data, COUNT_AT, 4) >= 0


@njit
def _is_plain(data: Any, size: int, last_offset: int) -> Any:
    """Returns whether a batch is sound and uncompressed."""
    return _is_sound(data, size, last_offset) and not data[ATTRIBUTES_AT + 1] & CODEC


@njit
def _write_row(row: Any, data: Any, size: int, start: int, end: int, slice_number: int) -> None:
    """Writes the table's row of one batch: ``data`` from its header on, ``size`` bytes."""
    attributes = data[ATTRIBUTES_AT + 1]
    row[ADDRESS], row[SIZE] = address_of(data) + HEADER_BYTES, size - HEADER_BYTES
    row[RECORD_COUNT], row[BASE_OFFSET] = _int_at(data, COUNT_AT, 4), _int_at(data, 0, 8)
    row[LAST_DELTA] = _int_at(data, LAST_DELTA_AT, 4)
    row[BASE_TIME], row[MAX_TIME] = _int_at(data, BASE_TIME_AT, 8), _int_at(data, MAX_TIME_AT, 8)
    row[TIMESTAMP_TYPE] = LOG_APPEND if attributes & LOG_APPEND_TIME else CREATE
    row[START], row[END], row[SLICE_NUMBER], row[ROWS_WRITTEN] = start, end, slice_number, 0
    row[LEADER_EPOCH], row[CRC] = _int_at(data, LEADER_EPOCH_AT, 4), CHECKED


def list_batches(
    data: Any,
    size: int,
    start: int,
    end: int,
    slice_number: int,
    check_crcs: int,
    cursor: Any,
    table: Any,
    capacity: int,
) -> int:
    """Adds the batches of a slice to the table, from the cursor's position on.

    Returns LISTED_ALL, TABLE_FULL (call again with a larger table), or NOT_PLAIN before a batch
    that only ``records.sections`` can judge or open. ``fill_rows`` checks the CRC of a batch with a
    row, while its records are in the CPU's cache. The CRC of any other batch is checked here.
    """
    while cursor[NEXT_AT] + PREFIX_BYTES <= size:
        batch = bytes_from(data, cursor[NEXT_AT])
        length = _int_at(batch, LENGTH_AT, 4) + PREFIX_BYTES
        if cursor[NEXT_AT] + length > size:
            return LISTED_ALL
        if not _is_plain(batch, length, cursor[LAST_OFFSET]):
            return NOT_PLAIN
        base = _int_at(batch, 0, 8)
        batch_last = base + _int_at(batch, LAST_DELTA_AT, 4)
        if base >= end:
            return LISTED_ALL
        if batch[ATTRIBUTES_AT + 1] & CONTROL or batch_last < start:
            if check_crcs and not _crc_matches(batch, length):
                return NOT_PLAIN
        elif cursor[ROWS_LISTED] == capacity:
            return TABLE_FULL
        else:
            row = row_of(table, cursor[ROWS_LISTED], SECTION_WIDTH)
            _write_row(row, batch, length, start, end, slice_number)
            if check_crcs:
                row[CRC] = _int_at(batch, CRC_AT, 4) & 0xFFFFFFFF
            cursor[ROWS_LISTED] += 1
        cursor[NEXT_AT] += length
        cursor[LAST_OFFSET] = batch_last
        if batch_last >= end - 1:
            return LISTED_ALL
    return LISTED_ALL


def walk_batches(data: Any, size: int, offset: int, walk: Any) -> int:
    """Continues a walk of ``records.batch`` over sound batches. Returns 0.

    It ends before a batch that is partial, of an old format, or faulty.
    """
    while walk[WALKED_TO] + PREFIX_BYTES <= size:
        at = walk[WALKED_TO]
        batch = bytes_from(data, at)
        length = _int_at(batch, LENGTH_AT, 4) + PREFIX_BYTES
        if at + length > size or not _is_sound(batch, length, walk[WALKED_OFFSET]):
            return 0
        walk[WALKED] += 1
        walk[PREVIOUS_AT], walk[LAST_AT], walk[WALKED_TO] = walk[LAST_AT], at, at + length
        walk[WALKED_OFFSET] = _int_at(batch, 0, 8) + _int_at(batch, LAST_DELTA_AT, 4)
        if walk[FIRST_AT] < 0 and walk[WALKED_OFFSET] >= offset:
            walk[FIRST_AT] = at
    return 0
