"""Copies the bytes of some records into a binary column that is null for all other records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.records.arrow import Array, check_bytes
from kfetch.records.memory import Memory

_OFFSET_BYTES = 4


def copies(
    data: memoryview | bytes, positions: Array, lengths: Array, records: Array, memory: Memory
) -> Any:
    """Returns a binary column with the values of ``records``; null for all other records.

    ``positions``: where each value starts in ``data``. ``lengths``: int32, its bytes, below 0 for a
    null. ``records``: their numbers, in order. ``memory`` counts the column before it is filled.
    Raises KfetchError for more bytes than a column can hold.
    """
    filled = records[lengths[records] >= 0]
    count, size = len(lengths), int(lengths[filled].sum(dtype=np.int64))
    check_bytes(size)
    memory.reserve(_OFFSET_BYTES * (count + 1) + (count + 7) // 8 + size)
    ends = np.zeros(count + 1, np.int32)
    ends[filled + 1] = lengths[filled]
    np.cumsum(ends, dtype=np.int32, out=ends)
    copied = pa.allocate_buffer(size)
    _copy(memoryview(data), positions[filled], memoryview(copied), ends[filled], lengths[filled])
    buffers: list[pa.Buffer | None] = [is_listed(count, filled), _buffer(ends), copied]
    nulls = count - len(filled)
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=nulls)


def _copy(
    source: memoryview, positions: Array, target: memoryview, starts: Array, lengths: Array
) -> None:
    source, target = source.cast("B"), target.cast("B")
    places = zip(positions.tolist(), starts.tolist(), lengths.tolist(), strict=True)
    for position, start, length in places:
        target[start : start + length] = source[position : position + length]


def texts(count: int, records: Array, sentences: Sequence[str], memory: Memory) -> Any:
    """Returns a string column of ``count`` rows with a sentence for each of ``records``."""
    encoded = [sentence.encode() for sentence in sentences]
    lengths, positions = np.full(count, -1, np.int32), np.zeros(count, np.int32)
    lengths[records] = [len(one) for one in encoded]
    positions[records] = np.cumsum(lengths[records]) - lengths[records]
    column = copies(b"".join(encoded), positions, lengths, records, memory)
    return pa.Array.from_buffers(pa.string(), count, column.buffers(), column.null_count)


def is_listed(count: int, records: Array) -> pa.Buffer:
    """Returns the validity bitmap of ``count`` rows of which only ``records`` are not null."""
    valid = np.zeros(count, np.bool_)
    valid[records] = True
    return _buffer(np.packbits(valid, bitorder="little"))


def _buffer(numbers: Any) -> pa.Buffer:
    return pa.py_buffer(numbers)
