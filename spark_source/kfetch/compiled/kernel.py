"""Records to Arrow, compiled: millions of them a second.

``table`` has the records. This module allocates the buffers, ``loops`` fills them, and the buffers
become columns without a copy. A column that nobody wants is not computed. Importing it loads the
machine code (``native``). ``loops`` returns the number of a fault, and ``records.faults`` has the
sentence.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import cache
from operator import mul
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.compiled.header_maps import last_of_each_key
from kfetch.compiled.interface import (
    BASE_OFFSET,
    END,
    FAULT_RECORD,
    FAULT_SECTION,
    HEADER_KEY_BYTES,
    HEADER_POSITIONS,
    HEADER_VALUE_BYTES,
    HEADER_VALUE_NULLS,
    HEADERS,
    KEY_BYTES,
    KEY_DATA,
    KEY_ENDS,
    KEY_NULLS,
    LAST_DELTA,
    LEADER_EPOCH,
    OFFSETS,
    PARTITIONS,
    RECORD_COUNT,
    ROWS,
    ROWS_WITH_HEADERS,
    ROWS_WRITTEN,
    SIZE,
    SLACK,
    START,
    TIMES,
    TIMESTAMP_TYPES,
    TOPIC_BYTES,
    TOPICS,
    TOTALS_WIDTH,
    VALUE_BYTES,
    VALUE_DATA,
    VALUE_ENDS,
    VALUE_NULLS,
)
from kfetch.compiled.table import LOOPS, SectionTable, table_of_sections, table_of_slices
from kfetch.model import NO_EPOCH
from kfetch.records import arrow
from kfetch.records.arrow import SCHEMA, Array, ColumnBuffers, Columns, delivered
from kfetch.records.batch import Slice
from kfetch.records.cursor import Cursor
from kfetch.records.faults import Fault, UnexplainedFault, malformed_timestamp
from kfetch.records.format import LOG_APPEND, RECORD_BYTES_MIN
from kfetch.records.memory import ROWS_BYTES_MAX, UNLIMITED, Memory, Part
from kfetch.records.sections import Section

TIMESTAMP = SCHEMA.field("timestamp").type
_MAP_BYTES = 64  # for each header, while its key is compared with others

_BITS = {
    "key": KEY_ENDS | KEY_DATA,
    "value": VALUE_ENDS | VALUE_DATA,
    "topic": TOPICS,
    "partition": PARTITIONS,
    "offset": OFFSETS,
    "timestamp": TIMES,
    "timestampType": TIMESTAMP_TYPES,
    "headers": HEADER_POSITIONS,
    "leaderEpoch": 0,
    "serializedKeySize": KEY_ENDS,
    "serializedValueSize": VALUE_ENDS,
}
_ALWAYS = 0
_BUFFERS = (
    *(KEY_ENDS, KEY_DATA, _ALWAYS),  # ends, data, validity
    *(VALUE_ENDS, VALUE_DATA, _ALWAYS),
    *(OFFSETS, TIMES, HEADER_POSITIONS),
)
"""The bit of each buffer of ``fill_rows``, in its order."""
KEY_ENDS_BUFFER, VALUE_ENDS_BUFFER = 0, 3
OFFSETS_BUFFER, TIMES_BUFFER, HEADER_POSITIONS_BUFFER = 6, 7, 8
SCRATCH = 9  # a buffer for what nobody reads
SCRATCH_BYTES = 8  # of a row


class _FillPlan(NamedTuple):
    """What the loops do for some columns."""

    wanted: int
    """The bits of ``interface``."""
    owned: tuple[bool, ...]
    """Whether each buffer is needed."""
    targets: tuple[int, ...]
    """The buffer to which ``fill_rows`` writes in place of each of its own."""

    @property
    def has_data(self) -> bool:
        """Whether bytes of the records are copied."""
        return bool(self.wanted & (KEY_DATA | VALUE_DATA | HEADER_POSITIONS))

    @property
    def temporary_bytes(self) -> int:
        """Bytes of a row in buffers that become no column."""
        numbers = self.owned[SCRATCH] + self.owned[HEADER_POSITIONS_BUFFER]
        ends = self.owned[KEY_ENDS_BUFFER] + self.owned[VALUE_ENDS_BUFFER]
        ends_of_columns = bool(self.wanted & KEY_DATA) + bool(self.wanted & VALUE_DATA)
        return 8 * numbers + 4 * (ends - ends_of_columns)


@cache
def _plan(columns: Columns) -> _FillPlan:
    """Returns the plan for some columns.

    A column that nobody wants shares the buffer of one that ``fill_rows`` writes after it in each
    step: the last write counts. So the loops have no branch for it. Validity is small, and always
    written.
    """
    wanted = 0
    for name in delivered(columns):
        wanted |= _BITS[name]
    has = {bit: bool(wanted & bit) for bit in set(_BUFFERS) if bit != _ALWAYS}
    offsets = OFFSETS_BUFFER if has[OFFSETS] else SCRATCH
    times = TIMES_BUFFER if has[TIMES] else offsets
    headers = HEADER_POSITIONS_BUFFER if has[HEADER_POSITIONS] else times
    value_ends = VALUE_ENDS_BUFFER if has[VALUE_ENDS] else SCRATCH
    key_ends = KEY_ENDS_BUFFER if has[KEY_ENDS] else value_ends
    targets = key_ends, 1, 2, value_ends, 4, 5, offsets, times, headers
    owned = [has.get(bit, True) for bit in _BUFFERS]
    return _FillPlan(wanted, (*owned, SCRATCH in targets), targets)


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
    part = part or Part(columns=columns)
    table = table_of_slices(slices, check_crcs=check_crcs, part=part)
    return _decode(table, columns, (), part)


def _decode(
    table: SectionTable, columns: Columns, sections: Sequence[Section], memory: Memory
) -> pa.RecordBatch | None:
    """Names a fault if ``sections`` are those of the table, else raises UnexplainedFault."""
    plan, totals = _plan(columns), array("q", bytes(8 * TOTALS_WIDTH))
    buffers = _row_buffers(table, columns, memory)
    addresses = buffers.addresses
    arguments = *table.sections, table.slices_address, plan.wanted, totals.buffer_info()[0]
    code = LOOPS.fill_rows(*arguments, *(addresses[number] for number in plan.targets))
    if code and not sections:
        raise UnexplainedFault
    if code:
        raise _failure(Fault(code), sections[totals[FAULT_SECTION]], totals[FAULT_RECORD])
    counts = totals.tolist()
    if not counts[ROWS]:
        return None
    _check_size(counts, columns)
    arrays = _columns(buffers, counts, columns)
    if plan.wanted & (TOPICS | PARTITIONS | TIMESTAMP_TYPES):
        arrays |= _constants(table, counts, plan.wanted)
    names = delivered(columns)
    if "headers" in names:
        if columns.headers_as_map:
            memory.reserve(_MAP_BYTES * counts[HEADERS])
        positions = addresses[HEADER_POSITIONS_BUFFER]
        arrays["headers"] = _headers_column(table, positions, counts, columns)
    if "leaderEpoch" in names:
        arrays["leaderEpoch"] = _leader_epochs(table.rows)
    return pa.RecordBatch.from_arrays(
        [arrays[name] for name in names], schema=arrow.schema_of(columns)
    )


def _failure(fault: Fault, section: Section, record: int) -> Exception:
    cursor = Cursor(section.data, section.tp, section.header.base_offset)
    cursor.record = record
    return _wrong_time(cursor, section) if fault is Fault.TIMESTAMP else cursor.fail(fault)


def _wrong_time(cursor: Cursor, section: Section) -> Exception:
    """Returns the error that names the record's offset and time."""
    for _ in range(cursor.record):
        cursor.skip_record()
    cursor.enter_record()
    cursor.byte()
    header = section.header
    time, offset = header.base_timestamp + cursor.varint(64), header.base_offset + cursor.varint()
    if section.timestamp_type == LOG_APPEND:
        time = header.max_timestamp
    return malformed_timestamp(section.tp, offset, time)


def _bytes_of_bits(count: int) -> int:
    return (count + 7) // 8


def _row_buffers(table: SectionTable, columns: Columns, memory: Memory) -> ColumnBuffers:
    """Returns the buffers that ``fill_rows`` needs, large enough for all records."""
    size, count = table.rows[:, [SIZE, RECORD_COUNT]].sum(axis=0).tolist()
    arrow.check_bytes(size)
    # ``fill_rows`` raises for a count that the bytes can't hold.
    rows = min(count, size // RECORD_BYTES_MIN + len(table.rows))
    plan = _plan(columns)
    row_bytes = arrow.row_bytes(columns, table.topic_bytes_max) + plan.temporary_bytes
    written = rows
    if rows * row_bytes > ROWS_BYTES_MAX:  # unwritten pages cost only address space
        written = min(rows, _offsets_in_range(table.rows))
    memory.reserve((size if plan.has_data else 0) + written * row_bytes)
    return ColumnBuffers(*_sizes_of_buffers(plan, rows, size + SLACK, size + SLACK))


def _offsets_in_range(sections: Array) -> int:
    base, last_delta, start, end = sections[:, [BASE_OFFSET, LAST_DELTA, START, END]].T
    offsets = np.minimum(end, base + last_delta + 1) - np.maximum(start, base)
    return int(offsets.clip(0).sum())


def _sizes_of_buffers(
    plan: _FillPlan, rows: int, key_bytes: int, value_bytes: int
) -> tuple[int, ...]:
    """Returns the bytes of the buffers of ``fill_rows``, 0 for those that nobody needs."""
    ends, bits, numbers = 4 * rows + 4, _bytes_of_bits(rows), 8 * rows
    sizes = ends, key_bytes, bits, ends, value_bytes, bits, numbers, numbers, numbers
    scratch = SCRATCH_BYTES * (rows + 1)
    return tuple(map(mul, (*sizes, scratch), plan.owned))


def _columns(buffers: ColumnBuffers, counts: list[int], columns: Columns) -> dict[str, Any]:
    """Returns the wanted ones of the columns that ``fill_rows`` writes."""
    rows, key_nulls, value_nulls = counts[ROWS], counts[KEY_NULLS], counts[VALUE_NULLS]
    sizes = _sizes_of_buffers(_plan(columns), rows, counts[KEY_BYTES], counts[VALUE_BYTES])
    written = buffers.written(*sizes)
    key, value, offsets, times = written[:3], written[3:6], written[6], written[7]
    made: dict[str, Callable[[], Any]] = {
        "key": lambda: _binary(_type_of("key", columns), rows, key, key_nulls),
        "value": lambda: _binary(_type_of("value", columns), rows, value, value_nulls),
        "offset": lambda: arrow.column(pa.int64(), rows, None, offsets),
        "timestamp": lambda: arrow.column(TIMESTAMP, rows, None, times),
        "serializedKeySize": lambda: _sizes(rows, key, key_nulls),
        "serializedValueSize": lambda: _sizes(rows, value, value_nulls),
    }
    return {name: made[name]() for name in delivered(columns) if name in made}


def _type_of(name: str, columns: Columns) -> pa.DataType:
    return pa.string() if name in columns.strings else pa.binary()


def _binary(kind: pa.DataType, rows: int, buffers: list[pa.Buffer], nulls: int) -> pa.Array[Any]:
    ends, data, valid = buffers
    return arrow.column(kind, rows, valid if nulls else None, ends, data, nulls=nulls)


def _check_size(counts: list[int], columns: Columns) -> None:
    names = delivered(columns)
    sizes = {
        "key": counts[KEY_BYTES],
        "value": counts[VALUE_BYTES],
        "topic": counts[TOPIC_BYTES],
        "headers": counts[HEADER_KEY_BYTES] + counts[HEADER_VALUE_BYTES],
    }
    size = sum(size for name, size in sizes.items() if name in names)
    headers = counts[HEADERS] if "headers" in names else 0
    arrow.check_size(columns, rows=counts[ROWS], headers=headers, data_bytes=size)


def _constants(table: SectionTable, counts: list[int], wanted: int) -> dict[str, Any]:
    """Returns the wanted ones of the columns that are equal for all records of a batch."""
    rows = counts[ROWS]
    topics = (4 * rows + 4, counts[TOPIC_BYTES]) if wanted & TOPICS else (4, 0)
    partition_bytes = 4 * rows if wanted & PARTITIONS else 0
    type_bytes = 4 * rows if wanted & TIMESTAMP_TYPES else 0
    sizes = *topics, partition_bytes, type_bytes
    buffers = ColumnBuffers(*sizes)
    LOOPS.fill_constants(*table.sections, table.slices_address, wanted, *buffers.addresses)
    ends, data, partitions, timestamp_types = buffers.written(*sizes)
    arrays: dict[str, Any] = {}
    if wanted & TOPICS:
        arrays["topic"] = arrow.column(pa.string(), rows, None, ends, data)
    for name, numbers in (("partition", partitions), ("timestampType", timestamp_types)):
        if wanted & _BITS[name]:
            arrays[name] = arrow.column(pa.int32(), rows, None, numbers)
    return arrays


def _leader_epochs(table: Array) -> pa.Array[Any]:
    epochs = np.repeat(table[:, LEADER_EPOCH].astype(np.int32), table[:, ROWS_WRITTEN])
    known = epochs != NO_EPOCH  # pa.array(epochs, mask) imports pandas, which takes a second
    nulls = len(epochs) - int(known.sum())
    valid = _buffer_of(np.packbits(known, bitorder="little")) if nulls else None
    return arrow.column(pa.int32(), len(epochs), valid, _buffer_of(epochs), nulls=nulls)


def _buffer_of(numbers: Any) -> pa.Buffer:
    return pa.py_buffer(numbers)


def _sizes(rows: int, buffers: list[pa.Buffer], nulls: int) -> pa.Array[Any]:
    """Returns the bytes of each key or value; null for a null."""
    ends: Any = buffers[0]
    sizes = _buffer_of(np.diff(np.frombuffer(ends, np.int32)))
    valid = buffers[2]
    return arrow.column(pa.int32(), rows, valid if nulls else None, sizes, nulls=nulls)


def _headers_column(
    table: SectionTable, positions: int, counts: list[int], columns: Columns
) -> pa.Array[Any]:
    rows, total = counts[ROWS], counts[HEADERS]
    if not total:
        no_headers: pa.Array[Any] = pa.nulls(rows, arrow.schema_of(columns).field("headers").type)
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
    bitmap = valid if nulls else None
    if columns.headers_as_map:
        lists, keys, values = last_of_each_key(lists, keys, values)
        return arrow.headers_map(rows, [bitmap, lists], nulls, [keys, values])
    return arrow.headers_list(rows, [bitmap, lists], nulls, [keys, values])
