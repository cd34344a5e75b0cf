"""Records to Arrow, slow and obvious: the decoder that says what the kernel must do.

Pure Python, one record after the other, every check spelled out. Use it to understand the format,
and to test the kernel.
Layout: kafka.apache.org/documentation/#record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from kfetch.model import NO_EPOCH
from kfetch.records.arrow import (
    HEADERS_MAP_TYPE,
    Columns,
    check_size,
    column,
    delivered,
    schema_of,
)
from kfetch.records.cursor import Cursor
from kfetch.records.faults import Fault, malformed_timestamp
from kfetch.records.format import LOG_APPEND, MILLISECONDS_MAX
from kfetch.records.java_text import java_text
from kfetch.records.memory import UNLIMITED, Memory
from kfetch.records.sections import Section


class _Row(NamedTuple):
    """A record."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: list[tuple[str, bytes | None]] | None
    headers_bytes: int
    leader_epoch: int | None


def decode(
    sections: Sequence[Section], *, columns: Columns, memory: Memory = UNLIMITED
) -> pa.RecordBatch | None:
    """Returns the rows in range of all sections as one RecordBatch, None if there are none."""
    rows = [row for section in sections for row in _rows(section)]
    if not rows:
        return None
    names = delivered(columns)
    check_size(
        columns,
        rows=len(rows),
        headers=sum(len(row.headers or ()) for row in rows) if "headers" in names else 0,
        data_bytes=sum(_data_bytes(row, names) for row in rows),
    )
    schema = schema_of(columns)
    arrays = [_array(rows, field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_CELLS: Mapping[str, Callable[[_Row], Any]] = {
    "key": lambda row: row.key,
    "value": lambda row: row.value,
    "topic": lambda row: row.topic,
    "partition": lambda row: row.partition,
    "offset": lambda row: row.offset,
    "timestamp": lambda row: row.timestamp,
    "timestampType": lambda row: row.timestamp_type,
    "headers": lambda row: row.headers,
    "leaderEpoch": lambda row: row.leader_epoch,
    "serializedKeySize": lambda row: None if row.key is None else len(row.key),
    "serializedValueSize": lambda row: None if row.value is None else len(row.value),
}


def _array(rows: Sequence[_Row], field: pa.Field[Any]) -> pa.Array[Any]:
    cells = [_CELLS[field.name](row) for row in rows]
    if field.name in ("key", "value"):
        data: pa.Array[Any] = pa.array(cells, pa.binary())
        # A string has the same bytes, also those that are not UTF-8.
        return column(field.type, len(data), *data.buffers(), nulls=data.null_count)
    if field.type == HEADERS_MAP_TYPE:  # a dict keeps a key's first place and its last value
        cells = [headers and list(dict(headers).items()) for headers in cells]
    array: pa.Array[Any] = pa.array(cells, field.type)
    return array


def _data_bytes(row: _Row, names: Sequence[str]) -> int:
    sizes = {
        "key": len(row.key or b""),
        "value": len(row.value or b""),
        "topic": len(row.topic.encode()),
        "headers": row.headers_bytes,
    }
    return sum(size for name, size in sizes.items() if name in names)


def _rows(section: Section) -> Iterator[_Row]:
    cursor = Cursor(section.data, section.tp, section.header.base_offset)
    for cursor.record in range(section.header.record_count):
        offset, row = _record(cursor, section)
        if row is not None:
            yield row
        # No offset comes twice, or later.
        section = section._replace(start=max(section.start, offset + 1))
    if cursor.at != len(section.data):
        cursor.record = section.header.record_count
        raise cursor.fail(Fault.LEFTOVER)


def _record(cursor: Cursor, section: Section) -> tuple[int, _Row | None]:
    """Returns the offset of the next record, and its row, or None if that is out of range."""
    header = section.header
    cursor.enter_record()
    cursor.byte()  # attributes: no bit has a meaning yet
    timestamp_delta = cursor.varint(64)
    offset_delta = cursor.varint()
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise cursor.fail(Fault.OFFSET_DELTA)
    key = cursor.blob(Fault.KEY_LENGTH)
    value = cursor.blob(Fault.VALUE_LENGTH)
    headers, headers_bytes = _headers(cursor)
    cursor.leave_record()
    offset = header.base_offset + offset_delta
    if not section.start <= offset < section.end:
        return offset, None
    timestamp = header.base_timestamp + timestamp_delta
    if section.timestamp_type == LOG_APPEND:
        timestamp = header.max_timestamp
    if abs(timestamp) > MILLISECONDS_MAX:
        raise malformed_timestamp(section.tp, offset, timestamp)
    return offset, _Row(
        key,
        value,
        *section.tp,
        offset,
        timestamp * 1000,
        section.timestamp_type,
        headers or None,  # Spark's column is null where a record has none
        headers_bytes,
        None if header.leader_epoch == NO_EPOCH else header.leader_epoch,
    )


def _headers(cursor: Cursor) -> tuple[list[tuple[str, bytes | None]], int]:
    """Returns the headers, and the bytes of their keys and values together."""
    count = cursor.varint()
    if count < 0:
        raise cursor.fail(Fault.HEADER_COUNT)
    headers: list[tuple[str, bytes | None]] = []
    size = 0
    for _ in range(count):
        key = cursor.blob(Fault.HEADER_KEY_LENGTH)
        if key is None:
            raise cursor.fail(Fault.HEADER_KEY_LENGTH)
        value = cursor.blob(Fault.HEADER_VALUE_LENGTH)
        headers.append((java_text(key), value))
        size += len(key) + len(value or b"")
    return headers, size
