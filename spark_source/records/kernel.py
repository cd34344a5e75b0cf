"""Records to Arrow, compiled: the same answers as ``reference``, millions of rows a second.

This half makes the table of sections and the buffers, ``loops`` reads and writes them, and the
buffers become columns without a copy. Importing it loads the machine code (``native``). It refuses
to word what is wrong with a record: ``loops`` gives a number, and ``faults`` has the sentence.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from spark_source.model import NO_EPOCH
from spark_source.records import arrow, native, reference
from spark_source.records.arrow import SCHEMA, Columns, room
from spark_source.records.codecs import address_of
from spark_source.records.faults import Fault, failure
from spark_source.records.layout import (
    COUNT,
    FAULT_RECORD,
    FAULT_SECTION,
    HEADED_ROWS,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADER_VALUE_NULLS,
    HEADERS,
    KEY_BYTES,
    KEY_NULLS,
    RECORD_BYTES_MIN,
    ROWS,
    SIZE,
    SLACK,
    TOTALS,
    VALUE_BYTES,
    VALUE_NULLS,
    WANTED,
    WIDTH,
)
from spark_source.records.sections import Section

__all__ = ["decode"]

Array = np.ndarray[Any, Any]

LOOPS = native.load()


def decode(sections: Sequence[Section], *, columns: Columns) -> pa.RecordBatch | None:
    """All wanted rows of all sections as one RecordBatch, or None if there are none."""
    table, totals = _table(sections), np.zeros(TOTALS, np.int64)
    buffers = _Buffers(table)
    code = LOOPS.fill_rows(address_of(table), len(table), address_of(totals), *buffers.all)
    if code:
        raise _failure(Fault(code), sections[totals[FAULT_SECTION]], int(totals[FAULT_RECORD]))
    counts = totals.tolist()
    if not counts[ROWS]:
        return None
    _check_size(sections, table, counts, columns)
    arrays = [*buffers.columns(counts), *_constants(sections, table, counts[ROWS])]
    key, value, offset, time, topic, partition, time_type = arrays
    listed = [key, value, topic, partition, offset, time, time_type]
    if columns.headers:
        listed.append(_headers_column(table, counts))
    if columns.leader_epoch:
        listed.append(_epochs(sections, table))
    if columns.serialized_sizes:
        listed += [_sizes(key), _sizes(value)]
    return pa.RecordBatch.from_arrays(listed, schema=arrow.schema_of(columns))


def _failure(fault: Fault, bad: Section, record: int) -> Exception:
    if fault is Fault.TIMESTAMP:  # whose sentence names the record's offset and time
        reference.decode([bad], columns=Columns())
    return failure(fault, bad.tp, bad.header.base_offset, record)


def _table(sections: Sequence[Section]) -> Array:
    """The sections as numbers: the columns of ``layout``."""
    numbers = array("q")
    for _, start, end, header, late, _, data, address in sections:
        numbers.extend((address, len(data), header.record_count, header.base_offset))
        numbers.extend((header.last_offset_delta, header.base_timestamp, header.max_timestamp))
        numbers.extend((late, start, end, 0))
    return np.frombuffer(numbers, np.int64).reshape(-1, WIDTH)


def _bits(count: int) -> Array:
    bits = room((count + 7) // 8, np.uint8)
    bits[:] = 0
    return bits


class _Buffers:
    """What ``fill_rows`` writes, large enough for whatever the sections may hold."""

    def __init__(self, table: Array) -> None:
        sizes, counts = table[:, SIZE], table[:, COUNT]
        # A count that its bytes can't hold is a fault, but not yet found.
        rows = int(np.minimum(counts, sizes // RECORD_BYTES_MIN + 1).sum())
        size = int(sizes.sum())
        arrow.check_bytes(size)
        self.key_ends, self.value_ends = (room(rows + 1, np.int32) for _ in range(2))
        # What is not written costs address space only.
        self.key_data, self.value_data = (room(size + SLACK, np.uint8) for _ in range(2))
        self.key_valid, self.value_valid = _bits(rows), _bits(rows)
        self.offsets, self.times = (room(rows, np.int64) for _ in range(2))

    @property
    def all(self) -> tuple[int, ...]:
        """Their addresses in the order of ``fill_rows``."""
        buffers = (
            *(self.key_ends, self.key_data, self.key_valid),
            *(self.value_ends, self.value_data, self.value_valid),
            *(self.offsets, self.times),
        )
        return tuple(map(address_of, buffers))

    def columns(self, counts: list[int]) -> list[pa.Array]:
        """Key, value, offset and timestamp of the rows that were written."""
        rows = counts[ROWS]
        key = self.key_ends[: rows + 1], self.key_data[: counts[KEY_BYTES]], self.key_valid
        value = self.value_ends[: rows + 1], self.value_data[: counts[VALUE_BYTES]]
        return [
            arrow.binary(pa.binary(), *key, counts[KEY_NULLS]),
            arrow.binary(pa.binary(), *value, self.value_valid, counts[VALUE_NULLS]),
            arrow.numbers(pa.int64(), self.offsets[:rows]),
            arrow.numbers(SCHEMA.field("timestamp").type, self.times[:rows]),
        ]


def _check_size(
    sections: Sequence[Section], table: Array, counts: list[int], columns: Columns
) -> None:
    size = counts[KEY_BYTES] + counts[VALUE_BYTES]
    for topic, run in _topics(sections, table):
        size += len(topic) * run
    if columns.headers:
        size += counts[HEADER_KEY_BYTES] + counts[HEADER_VALUE_BYTES]
    headers = counts[HEADERS] if columns.headers else 0
    arrow.check_size(rows=counts[ROWS], headers=headers, data_bytes=size)


def _topics(sections: Sequence[Section], table: Array) -> list[tuple[bytes, int]]:
    """The topics by turns, and how many rows each has running."""
    pairs = zip((section.tp.topic for section in sections), table[:, WANTED].tolist(), strict=True)
    runs = groupby(pairs, key=lambda pair: pair[0])
    return [(topic.encode(), sum(count for _, count in run)) for topic, run in runs]


def _constants(sections: Sequence[Section], table: Array, rows: int) -> list[pa.Array]:
    """Topic, partition and timestamp type, which are the same for all records of a batch."""
    wanted, runs = table[:, WANTED], _topics(sections, table)
    lengths = np.repeat([len(topic) for topic, _ in runs], [run for _, run in runs])
    ends = room(rows + 1, np.int32)
    ends[0] = 0
    np.cumsum(lengths, out=ends[1:], dtype=np.int32)
    names = np.frombuffer(b"".join(topic * run for topic, run in runs), np.uint8)
    partitions = np.array([section.tp.partition for section in sections], np.int32)
    time_types = np.array([section.time_type for section in sections], np.int32)
    return [
        arrow.binary(pa.string(), ends, names, None, 0),
        arrow.numbers(pa.int32(), np.repeat(partitions, wanted)),
        arrow.numbers(pa.int32(), np.repeat(time_types, wanted)),
    ]


def _epochs(sections: Sequence[Section], table: Array) -> pa.Array:
    epochs = np.array([section.header.leader_epoch for section in sections], np.int32)
    each = np.repeat(epochs, table[:, WANTED])
    known = each != NO_EPOCH  # pa.array(each, mask) would import pandas, for a second
    valid = np.packbits(known, bitorder="little")
    return arrow.numbers(pa.int32(), each, valid, len(each) - int(known.sum()))


def _sizes(column: pa.Array) -> pa.Array:
    """The bytes of each value; null for a null."""
    valid, ends, _ = column.buffers()
    sizes = np.diff(np.frombuffer(ends, np.int32)[: len(column) + 1])
    return pa.Array.from_buffers(
        pa.int32(), len(column), [valid, pa.py_buffer(sizes)], null_count=column.null_count
    )


def _headers_column(table: Array, counts: list[int]) -> pa.Array:
    rows, total = counts[ROWS], counts[HEADERS]
    if not total:
        return pa.nulls(rows, arrow.SCHEMA_WITH_HEADERS.field("headers").type)
    lists, list_valid, value_valid = room(rows + 1, np.int32), _bits(rows), _bits(total)
    keys, values = room(total + 1, np.int32), room(total + 1, np.int32)
    key_data = room(counts[HEADER_KEY_BYTES], np.uint8)
    value_data = room(counts[HEADER_VALUE_BYTES], np.uint8)
    buffers = lists, list_valid, keys, key_data, values, value_data, value_valid
    LOOPS.fill_headers(address_of(table), len(table), *map(address_of, buffers))
    return arrow.headers_list(
        lists,
        list_valid,
        rows - counts[HEADED_ROWS],
        arrow.utf8_keys(arrow.binary(pa.string(), keys, key_data, None, 0)),
        arrow.binary(pa.binary(), values, value_data, value_valid, counts[HEADER_VALUE_NULLS]),
    )
