"""Records to Arrow, compiled: the same answers as ``reference``, millions of rows a second.

``table`` has the records, this file makes the buffers, ``loops`` fills them, and the
buffers become columns without a copy. Importing it loads the machine code (``native``). It refuses
to word what is wrong with a record: ``loops`` gives a number, and ``faults`` has the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from spark_source.model import NO_EPOCH
from spark_source.records import arrow, reference
from spark_source.records.arrow import SCHEMA, Columns, room
from spark_source.records.batch import Slice
from spark_source.records.codecs import address_of
from spark_source.records.faults import Fault, Unsure, failure
from spark_source.records.layout import (
    COUNT,
    EPOCH,
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
    SLICE,
    TIME_TYPE,
    TOTALS,
    VALUE_BYTES,
    VALUE_NULLS,
    WANTED,
)
from spark_source.records.sections import Section
from spark_source.records.table import LOOPS, Table, of_sections, of_slices

__all__ = ["decode", "decode_slices"]

Array = np.ndarray[Any, Any]


def decode(sections: Sequence[Section], *, columns: Columns) -> pa.RecordBatch | None:
    """All wanted rows of all sections as one RecordBatch, or None if there are none."""
    return _decode(of_sections(sections), columns, sections)


def decode_slices(
    slices: Sequence[Slice], *, columns: Columns, check_crcs: bool
) -> pa.RecordBatch | None:
    """The same from the slices themselves, without a look at each batch in Python.

    Raises CorruptBatch or Unsure where anything is wrong, in no order: ``sections`` tells what.
    """
    return _decode(of_slices(slices, check_crcs=check_crcs), columns, ())


def _decode(table: Table, columns: Columns, sections: Sequence[Section]) -> pa.RecordBatch | None:
    """With the sections, the table's, a fault is worded; without them it is Unsure."""
    rows, totals = table.rows, np.zeros(TOTALS, np.int64)
    buffers = _Buffers(rows)
    code = LOOPS.fill_rows(address_of(rows), len(rows), address_of(totals), *buffers.all)
    if code and not sections:
        raise Unsure
    if code:
        raise _failure(Fault(code), sections[totals[FAULT_SECTION]], int(totals[FAULT_RECORD]))
    counts = totals.tolist()
    if not counts[ROWS]:
        return None
    runs = _topics(table)
    _check_size(runs, counts, columns)
    arrays = [*buffers.columns(counts), *_constants(table, runs, counts[ROWS])]
    key, value, offset, time, topic, partition, time_type = arrays
    listed = [key, value, topic, partition, offset, time, time_type]
    if columns.headers:
        listed.append(_headers_column(rows, counts))
    if columns.leader_epoch:
        listed.append(_epochs(rows))
    if columns.serialized_sizes:
        listed += [_sizes(key), _sizes(value)]
    return pa.RecordBatch.from_arrays(listed, schema=arrow.schema_of(columns))


def _failure(fault: Fault, bad: Section, record: int) -> Exception:
    if fault is Fault.TIMESTAMP:  # whose sentence names the record's offset and time
        reference.decode([bad], columns=Columns())
    return failure(fault, bad.tp, bad.header.base_offset, record)


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


Run = tuple[bytes, int]
"""A topic and how many rows it has running."""


def _check_size(runs: list[Run], counts: list[int], columns: Columns) -> None:
    size = counts[KEY_BYTES] + counts[VALUE_BYTES]
    for topic, run in runs:
        size += len(topic) * run
    if columns.headers:
        size += counts[HEADER_KEY_BYTES] + counts[HEADER_VALUE_BYTES]
    headers = counts[HEADERS] if columns.headers else 0
    arrow.check_size(rows=counts[ROWS], headers=headers, data_bytes=size)


def _topics(table: Table) -> list[Run]:
    """The topics by turns."""
    counts = np.zeros(len(table.tps), np.int64)
    np.add.at(counts, table.rows[:, SLICE], table.rows[:, WANTED])
    pairs = zip((tp.topic for tp in table.tps), counts.tolist(), strict=True)
    runs = groupby(pairs, key=lambda pair: pair[0])
    return [(topic.encode(), sum(count for _, count in run)) for topic, run in runs]


def _constants(table: Table, runs: list[Run], rows: int) -> list[pa.Array]:
    """Topic, partition and timestamp type, which are the same for all records of a batch."""
    wanted = table.rows[:, WANTED]
    lengths = np.repeat([len(topic) for topic, _ in runs], [run for _, run in runs])
    ends = room(rows + 1, np.int32)
    ends[0] = 0
    np.cumsum(lengths, out=ends[1:], dtype=np.int32)
    names = np.frombuffer(b"".join(topic * run for topic, run in runs), np.uint8)
    partitions = np.array([tp.partition for tp in table.tps], np.int32)[table.rows[:, SLICE]]
    time_types = table.rows[:, TIME_TYPE].astype(np.int32)
    return [
        arrow.binary(pa.string(), ends, names, None, 0),
        arrow.numbers(pa.int32(), np.repeat(partitions, wanted)),
        arrow.numbers(pa.int32(), np.repeat(time_types, wanted)),
    ]


def _epochs(table: Array) -> pa.Array:
    each = np.repeat(table[:, EPOCH].astype(np.int32), table[:, WANTED])
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
