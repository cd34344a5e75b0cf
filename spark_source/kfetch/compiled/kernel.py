"""Records to Arrow, compiled: the same rows as ``records.reference``, millions of them a second.

``table`` has the records. This module allocates the buffers, ``loops`` fills them, and the buffers
become columns without a copy. Importing it loads the machine code (``native``). ``loops`` returns
the number of a fault, and ``records.faults`` has the sentence.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.compiled.layout import (
    FAULT_RECORD,
    FAULT_SECTION,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADER_VALUE_NULLS,
    HEADERS,
    KEY_BYTES,
    KEY_NULLS,
    LEADER_EPOCH,
    RECORD_COUNT,
    ROWS,
    ROWS_WITH_HEADERS,
    ROWS_WRITTEN,
    SIZE,
    SLACK,
    TOPIC_BYTES,
    TOTALS_WIDTH,
    VALUE_BYTES,
    VALUE_NULLS,
)
from kfetch.compiled.table import LOOPS, SectionTable, table_of_sections, table_of_slices
from kfetch.model import NO_EPOCH
from kfetch.records import arrow, reference
from kfetch.records.arrow import SCHEMA, ColumnBuffers, Columns
from kfetch.records.batch import Slice
from kfetch.records.faults import Fault, UnexplainedFault, failure
from kfetch.records.format import (
    RECORD_BYTES_MIN,
)
from kfetch.records.memory import UNLIMITED, Memory, Part
from kfetch.records.sections import Section

__all__ = ["decode", "decode_slices"]

Array = np.ndarray[Any, Any]

TIMESTAMP = SCHEMA.field("timestamp").type
HEADER_POSITIONS = -1  # the last buffer that ``fill_rows`` writes; it is no column


def decode(
    sections: Sequence[Section], *, columns: Columns, memory: Memory = UNLIMITED
) -> pa.RecordBatch | None:
    """Returns the rows in range of all sections as one RecordBatch, None if there are none."""
    return _decode(table_of_sections(sections), columns, sections, memory)


def decode_slices(
    slices: Sequence[Slice], *, columns: Columns, check_crcs: bool, part: Part | None = None
) -> pa.RecordBatch | None:
    """Returns the same from slices, or from one part of them. Plain batches cost no Python.

    Raises CorruptBatch or UnexplainedFault for damaged data, not always for the first damage.
    ``records.sections`` and ``decode`` name the first.
    """
    part = part or Part()
    table = table_of_slices(slices, check_crcs=check_crcs, part=part)
    return _decode(table, columns, (), part)


def _decode(
    table: SectionTable, columns: Columns, sections: Sequence[Section], memory: Memory
) -> pa.RecordBatch | None:
    """Names a fault if ``sections`` are those of the table, else raises UnexplainedFault."""
    buffers, totals = _row_buffers(table, memory), array("q", bytes(8 * TOTALS_WIDTH))
    arguments = *table.sections, table.slices_address, totals.buffer_info()[0]
    code = LOOPS.fill_rows(*arguments, *buffers.addresses)
    if code and not sections:
        raise UnexplainedFault
    if code:
        raise _failure(Fault(code), sections[totals[FAULT_SECTION]], totals[FAULT_RECORD])
    counts = totals.tolist()
    if not counts[ROWS]:
        return None
    _check_size(counts, columns)
    key, value, *numbers = _columns(buffers, counts)
    topic, partition, timestamp_type = _constants(table, counts)
    arrays = [key, value, topic, partition, *numbers, timestamp_type]
    if columns.headers:
        arrays.append(_headers_column(table, buffers.addresses[HEADER_POSITIONS], counts))
    if columns.leader_epoch:
        arrays.append(_leader_epochs(table.rows))
    if columns.serialized_sizes:
        arrays += [_sizes(key), _sizes(value)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow.schema_of(columns))


def _failure(fault: Fault, section: Section, record: int) -> Exception:
    if fault is Fault.TIMESTAMP:  # the reference names the record's offset and time
        reference.decode([section], columns=Columns())
    return failure(fault, section.tp, section.header.base_offset, record)


def _bytes_of_bits(count: int) -> int:
    return (count + 7) // 8


def _row_buffers(table: SectionTable, memory: Memory) -> ColumnBuffers:
    """Returns the buffers of ``fill_rows``, in its order, large enough for all records."""
    size, count = table.rows[:, [SIZE, RECORD_COUNT]].sum(axis=0).tolist()
    arrow.check_bytes(size)
    # ``fill_rows`` raises for a count that the bytes can't hold.
    rows = min(count, size // RECORD_BYTES_MIN + len(table.rows))
    memory.reserve(size + rows * (arrow.ROW_BYTES + table.topic_bytes_max))
    data = 4 * rows + 4, size + SLACK, _bytes_of_bits(rows)
    return ColumnBuffers(*data, *data, 8 * rows, 8 * rows, 8 * rows)


def _columns(buffers: ColumnBuffers, counts: list[int]) -> list[pa.Array[Any]]:
    """Returns the columns key, value, offset and timestamp."""
    rows = counts[ROWS]
    ends, bits, numbers = 4 * rows + 4, _bytes_of_bits(rows), 8 * rows
    sizes = (ends, counts[KEY_BYTES], bits), (ends, counts[VALUE_BYTES], bits), (numbers, numbers)
    written = buffers.written(*chain.from_iterable(sizes))
    return [
        _binary(pa.binary(), rows, written[:3], counts[KEY_NULLS]),
        _binary(pa.binary(), rows, written[3:6], counts[VALUE_NULLS]),
        arrow.column(pa.int64(), rows, None, written[6]),
        arrow.column(TIMESTAMP, rows, None, written[7]),
    ]


def _binary(kind: pa.DataType, rows: int, buffers: list[pa.Buffer], nulls: int) -> pa.Array[Any]:
    ends, data, valid = buffers
    return arrow.column(kind, rows, valid if nulls else None, ends, data, nulls=nulls)


def _check_size(counts: list[int], columns: Columns) -> None:
    size = counts[KEY_BYTES] + counts[VALUE_BYTES] + counts[TOPIC_BYTES]
    if columns.headers:
        size += counts[HEADER_KEY_BYTES] + counts[HEADER_VALUE_BYTES]
    headers = counts[HEADERS] if columns.headers else 0
    arrow.check_size(rows=counts[ROWS], headers=headers, data_bytes=size)


def _constants(table: SectionTable, counts: list[int]) -> list[pa.Array[Any]]:
    """Returns the columns topic, partition and timestamp type: equal for all records of a batch."""
    rows = counts[ROWS]
    sizes = 4 * rows + 4, counts[TOPIC_BYTES], 4 * rows, 4 * rows
    buffers = ColumnBuffers(*sizes)
    LOOPS.fill_constants(*table.sections, table.slices_address, *buffers.addresses)
    ends, data, partitions, timestamp_types = buffers.written(*sizes)
    return [
        arrow.column(pa.string(), rows, None, ends, data),
        arrow.column(pa.int32(), rows, None, partitions),
        arrow.column(pa.int32(), rows, None, timestamp_types),
    ]


def _leader_epochs(table: Array) -> pa.Array[Any]:
    epochs = np.repeat(table[:, LEADER_EPOCH].astype(np.int32), table[:, ROWS_WRITTEN])
    known = epochs != NO_EPOCH  # pa.array(epochs, mask) imports pandas, which takes a second
    nulls = len(epochs) - int(known.sum())
    valid = _buffer_of(np.packbits(known, bitorder="little")) if nulls else None
    return arrow.column(pa.int32(), len(epochs), valid, _buffer_of(epochs), nulls=nulls)


def _buffer_of(numbers: Any) -> pa.Buffer:
    return pa.py_buffer(numbers)


def _sizes(column: pa.Array[Any]) -> pa.Array[Any]:
    """Returns the bytes of each value; null for a null."""
    buffers: Any = column.buffers()
    valid, ends, _ = buffers
    sizes = _buffer_of(np.diff(np.frombuffer(ends, np.int32)[: len(column) + 1]))
    return arrow.column(pa.int32(), len(column), valid, sizes, nulls=column.null_count)


def _headers_column(table: SectionTable, positions: int, counts: list[int]) -> pa.Array[Any]:
    rows, total = counts[ROWS], counts[HEADERS]
    if not total:
        no_headers: pa.Array[Any] = pa.nulls(rows, arrow.HEADERS_TYPE)
        return no_headers
    ends, bits = 4 * total + 4, _bytes_of_bits(total)
    sizes = [4 * rows + 4, _bytes_of_bits(rows)]
    sizes += [ends, counts[HEADER_KEY_BYTES], ends, counts[HEADER_VALUE_BYTES], bits]
    buffers = ColumnBuffers(*(size + SLACK for size in sizes))
    LOOPS.fill_headers(*table.sections, positions, *buffers.addresses)
    lists, valid, *key, value_ends, value_data, value_valid = buffers.written(*sizes)
    keys = arrow.utf8_keys(arrow.column(pa.string(), total, None, *key))
    value = [value_ends, value_data, value_valid]
    values = _binary(pa.binary(), total, value, counts[HEADER_VALUE_NULLS])
    nulls = rows - counts[ROWS_WITH_HEADERS]
    return arrow.headers_list(rows, [valid if nulls else None, lists], nulls, [keys, values])
