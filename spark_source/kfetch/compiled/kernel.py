"""Records to Arrow, compiled: the same answers as ``reference``, millions of rows a second.

``table`` has the records, this file makes the buffers, ``loops`` fills them, and the
buffers become columns without a copy. Importing it loads the machine code (``native``). It refuses
to word what is wrong with a record: ``loops`` gives a number, and ``faults`` has the sentence.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.compiled.layout import (
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
    TOPIC_BYTES,
    TOTALS,
    VALUE_BYTES,
    VALUE_NULLS,
    WANTED,
)
from kfetch.compiled.table import LOOPS, Table, of_sections, of_slices
from kfetch.model import NO_EPOCH
from kfetch.records import arrow, reference
from kfetch.records.arrow import SCHEMA, Columns, Memory
from kfetch.records.batch import Slice
from kfetch.records.faults import Fault, Unsure, failure
from kfetch.records.sections import Section

__all__ = ["decode", "decode_slices"]

Array = np.ndarray[Any, Any]

TIMESTAMP = SCHEMA.field("timestamp").type
PLACES = -1  # of headers: the last of what ``fill_rows`` writes, and no column


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
    memory, totals = _room_for(table.rows), array("q", bytes(8 * TOTALS))
    where = totals.buffer_info()[0]
    code = LOOPS.fill_rows(*table.sections, table.slices, where, *memory.addresses)
    if code and not sections:
        raise Unsure
    if code:
        raise _failure(Fault(code), sections[totals[FAULT_SECTION]], totals[FAULT_RECORD])
    counts = totals.tolist()
    if not counts[ROWS]:
        return None
    _check_size(counts, columns)
    key, value, *numbers = _columns(memory, counts)
    topic, partition, time_type = _constants(table, counts)
    listed = [key, value, topic, partition, *numbers, time_type]
    if columns.headers:
        listed.append(_headers_column(table, memory.addresses[PLACES], counts))
    if columns.leader_epoch:
        listed.append(_epochs(table.rows))
    if columns.serialized_sizes:
        listed += [_sizes(key), _sizes(value)]
    return pa.RecordBatch.from_arrays(listed, schema=arrow.schema_of(columns))


def _failure(fault: Fault, bad: Section, record: int) -> Exception:
    if fault is Fault.TIMESTAMP:  # whose sentence names the record's offset and time
        reference.decode([bad], columns=Columns())
    return failure(fault, bad.tp, bad.header.base_offset, record)


def _bytes_of_bits(count: int) -> int:
    return (count + 7) // 8


def _room_for(table: Array) -> Memory:
    """What ``fill_rows`` writes, in its order, large enough for whatever the sections may hold."""
    size, count = table[:, [SIZE, COUNT]].sum(axis=0).tolist()
    arrow.check_bytes(size)
    # A count that the bytes can't hold is a fault, but not yet found.
    rows = min(count, size // RECORD_BYTES_MIN + len(table))
    data = 4 * rows + 4, size + SLACK, _bytes_of_bits(rows)
    return Memory(*data, *data, 8 * rows, 8 * rows, 8 * rows)


def _columns(memory: Memory, counts: list[int]) -> list[pa.Array]:
    """Key, value, offset and timestamp of the rows that were written."""
    rows = counts[ROWS]
    ends, bits, numbers = 4 * rows + 4, _bytes_of_bits(rows), 8 * rows
    sizes = (ends, counts[KEY_BYTES], bits), (ends, counts[VALUE_BYTES], bits), (numbers, numbers)
    found = memory.buffers(*chain.from_iterable(sizes))
    return [
        _binary(pa.binary(), rows, found[:3], counts[KEY_NULLS]),
        _binary(pa.binary(), rows, found[3:6], counts[VALUE_NULLS]),
        arrow.column(pa.int64(), rows, None, found[6]),
        arrow.column(TIMESTAMP, rows, None, found[7]),
    ]


def _binary(kind: pa.DataType, rows: int, buffers: list[pa.Buffer], nulls: int) -> pa.Array:
    ends, data, valid = buffers
    return arrow.column(kind, rows, valid if nulls else None, ends, data, nulls=nulls)


def _check_size(counts: list[int], columns: Columns) -> None:
    size = counts[KEY_BYTES] + counts[VALUE_BYTES] + counts[TOPIC_BYTES]
    if columns.headers:
        size += counts[HEADER_KEY_BYTES] + counts[HEADER_VALUE_BYTES]
    headers = counts[HEADERS] if columns.headers else 0
    arrow.check_size(rows=counts[ROWS], headers=headers, data_bytes=size)


def _constants(table: Table, counts: list[int]) -> list[pa.Array]:
    """Topic, partition and timestamp type, which are the same for all records of a batch."""
    rows = counts[ROWS]
    sizes = 4 * rows + 4, counts[TOPIC_BYTES], 4 * rows, 4 * rows
    memory = Memory(*sizes)
    LOOPS.fill_constants(*table.sections, table.slices, *memory.addresses)
    ends, data, partitions, time_types = memory.buffers(*sizes)
    return [
        arrow.column(pa.string(), rows, None, ends, data),
        arrow.column(pa.int32(), rows, None, partitions),
        arrow.column(pa.int32(), rows, None, time_types),
    ]


def _epochs(table: Array) -> pa.Array:
    each = np.repeat(table[:, EPOCH].astype(np.int32), table[:, WANTED])
    known = each != NO_EPOCH  # pa.array(each, mask) would import pandas, for a second
    nulls = len(each) - int(known.sum())
    valid = pa.py_buffer(np.packbits(known, bitorder="little")) if nulls else None
    return arrow.column(pa.int32(), len(each), valid, pa.py_buffer(each), nulls=nulls)


def _sizes(column: pa.Array) -> pa.Array:
    """The bytes of each value; null for a null."""
    valid, ends, _ = column.buffers()
    sizes = pa.py_buffer(np.diff(np.frombuffer(ends, np.int32)[: len(column) + 1]))
    return arrow.column(pa.int32(), len(column), valid, sizes, nulls=column.null_count)


def _headers_column(table: Table, places: int, counts: list[int]) -> pa.Array:
    rows, total = counts[ROWS], counts[HEADERS]
    if not total:
        return pa.nulls(rows, arrow.SCHEMA_WITH_HEADERS.field("headers").type)
    ends, bits = 4 * total + 4, _bytes_of_bits(total)
    sizes = [4 * rows + 4, _bytes_of_bits(rows)]
    sizes += [ends, counts[HEADER_KEY_BYTES], ends, counts[HEADER_VALUE_BYTES], bits]
    memory = Memory(*(size + SLACK for size in sizes))
    LOOPS.fill_headers(*table.sections, places, *memory.addresses)
    lists, valid, *key, value_ends, value_data, value_valid = memory.buffers(*sizes)
    keys = arrow.utf8_keys(arrow.column(pa.string(), total, None, *key))
    value = [value_ends, value_data, value_valid]
    values = _binary(pa.binary(), total, value, counts[HEADER_VALUE_NULLS])
    nulls = rows - counts[HEADED_ROWS]
    return arrow.headers_list(rows, [valid if nulls else None, lists], nulls, [keys, values])
