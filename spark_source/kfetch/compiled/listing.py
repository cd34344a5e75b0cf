"""The compiled walk over a slice's batches: a row of the table for each, and no Python for any.

It refuses to judge: before a batch that has anything special or wrong it stops, and ``sections``
goes over the whole slice instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from kfetch.compiled.crc import crc32c
from kfetch.compiled.layout import (
    ADDRESS,
    AT,
    ATTRIBUTES_AT,
    BASE_OFFSET,
    BASE_TIME,
    BASE_TIME_AT,
    BEFORE,
    CHECKED,
    CODEC,
    CONTROL,
    COUNT,
    COUNT_AT,
    CRC,
    CRC_AT,
    DONE,
    END,
    EPOCH,
    EPOCH_AT,
    FULL,
    HEADER_BYTES,
    LAST_DELTA,
    LAST_DELTA_AT,
    LATE,
    LENGTH_AT,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    MAX_TIME,
    MAX_TIME_AT,
    OFFSET_MAX,
    PREFIX_BYTES,
    SIZE,
    SLICE,
    START,
    TAKEN,
    TIME_TYPE,
    UNSURE,
    WANTED,
    WIDTH,
)
from kfetch.compiled.pointers import address_of, bytes_from, row_of

__all__ = ["list_batches"]


@njit
def _number(data: Any, at: int, size: int) -> Any:
    """A signed big-endian number."""
    number = np.int64(data[at])
    number = number - 256 if number >= 128 else number
    for i in range(1, size):
        number = (number << 8) | np.int64(data[at + i])
    return number


@njit
def _sound(data: Any, size: int) -> Any:
    """Whether a batch's CRC is right."""
    crc = _number(data, CRC_AT, 4) & 0xFFFFFFFF
    return crc == crc32c(bytes_from(data, ATTRIBUTES_AT), size - ATTRIBUTES_AT)


@njit
def _is_plain(data: Any, size: int, before: int) -> Any:
    """Whether a batch is v2, uncompressed, and has no fault in its header, as ``batch`` sees it."""
    if size < HEADER_BYTES or data[MAGIC_AT] != MAGIC or data[ATTRIBUTES_AT + 1] & CODEC:
        return False
    base, last_delta = _number(data, 0, 8), _number(data, LAST_DELTA_AT, 4)
    if base < 0 or last_delta < 0 or base > OFFSET_MAX - last_delta:
        return False
    return base > before and _number(data, COUNT_AT, 4) >= 0


@njit
def _list_batch(row: Any, data: Any, size: int, start: int, end: int, part: int) -> None:
    attributes = data[ATTRIBUTES_AT + 1]
    row[ADDRESS], row[SIZE] = address_of(data) + HEADER_BYTES, size - HEADER_BYTES
    row[COUNT], row[BASE_OFFSET] = _number(data, COUNT_AT, 4), _number(data, 0, 8)
    row[LAST_DELTA] = _number(data, LAST_DELTA_AT, 4)
    row[BASE_TIME], row[MAX_TIME] = _number(data, BASE_TIME_AT, 8), _number(data, MAX_TIME_AT, 8)
    row[LATE] = row[TIME_TYPE] = 1 if attributes & LOG_APPEND_TIME else 0
    row[START], row[END], row[SLICE], row[WANTED] = start, end, part, 0
    row[EPOCH], row[CRC] = _number(data, EPOCH_AT, 4), CHECKED


def list_batches(
    data: Any,
    size: int,
    start: int,
    end: int,
    part: int,
    check: int,
    walk: Any,
    table: Any,
    room: int,
) -> int:
    """Add the batches of a slice from the walk's position on to the table.

    Returns DONE, FULL (go on with a larger table), or UNSURE: a batch that only ``sections`` can
    judge or open. A batch that gets a row is checked with its records, while it is in the CPU's
    cache; the others here.
    """
    while walk[AT] + PREFIX_BYTES <= size:
        batch = bytes_from(data, walk[AT])
        length = _number(batch, LENGTH_AT, 4) + PREFIX_BYTES
        if walk[AT] + length > size:
            return DONE
        if not _is_plain(batch, length, walk[BEFORE]):
            return UNSURE
        base = _number(batch, 0, 8)
        last = base + _number(batch, LAST_DELTA_AT, 4)
        if base >= end:
            return DONE
        if batch[ATTRIBUTES_AT + 1] & CONTROL or last < start:
            if check and not _sound(batch, length):
                return UNSURE
        elif walk[TAKEN] == room:
            return FULL
        else:
            row = row_of(table, walk[TAKEN], WIDTH)
            _list_batch(row, batch, length, start, end, part)
            if check:
                row[CRC] = _number(batch, CRC_AT, 4) & 0xFFFFFFFF
            walk[TAKEN] += 1
        walk[AT] += length
        walk[BEFORE] = last
        if last >= end - 1:
            return DONE
    return DONE
