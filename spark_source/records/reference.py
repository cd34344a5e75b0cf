"""Records to Arrow, slow and obvious: the decoder that says what the kernel must do.

Pure Python, one record after the other, every check spelled out. It refuses to be clever; use it
to understand the format, to judge the kernel, and where numba cannot run.
Layout: kafka.apache.org/documentation/#record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from spark_source.records.arrow import SCHEMA, SCHEMA_WITH_HEADERS, check_size
from spark_source.records.batch import Section
from spark_source.records.faults import Fault, failure

__all__ = ["decode"]

_MILLISECONDS_MAX = (2**63 - 1) // 1000


class _Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: list[tuple[str, bytes | None]]
    headers_bytes: int


class _Cursor:
    """A position in a batch's records that cannot pass ``end``."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.record = 0
        self.at = 0
        self.end = len(section.data)

    def fail(self, fault: Fault) -> Exception:
        return failure(fault, self.section.tp, self.section.header.base_offset, self.record)

    def byte(self) -> int:
        if self.at >= self.end:
            raise self.fail(Fault.ENDS_EARLY)
        self.at += 1
        return self.section.data[self.at - 1]

    def varint(self, bits: int = 32) -> int:
        """Zigzag, seven bits per byte, low ones first; ``bits`` is the width of its type."""
        raw = shift = 0
        while True:
            byte = self.byte()
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                raise self.fail(Fault.OVERLONG)
        if raw >> bits:
            raise self.fail(Fault.OVERLONG)
        return (raw >> 1) ^ -(raw & 1)

    def blob(self, fault: Fault) -> bytes | None:
        length = self.varint()
        if length < -1 or length > self.end - self.at:
            raise self.fail(fault)
        if length < 0:
            return None
        self.at += length
        return bytes(self.section.data[self.at - length : self.at])


def decode(sections: Sequence[Section], *, headers: bool) -> pa.RecordBatch | None:
    """All wanted rows of all sections as one RecordBatch, or None if there are none."""
    rows = [row for section in sections for row in _rows(section)]
    if not rows:
        return None
    check_size(
        rows=len(rows),
        headers=sum(len(row.headers) for row in rows) if headers else 0,
        data_bytes=sum(_data_bytes(row, headers) for row in rows),
    )
    schema = SCHEMA_WITH_HEADERS if headers else SCHEMA
    # Spark's column is null where a record has no headers.
    columns = [
        [row.headers or None if i == 7 else row[i] for row in rows] for i in range(len(schema))
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _data_bytes(row: _Row, headers: bool) -> int:
    size = len(row.key or b"") + len(row.value or b"") + len(row.topic.encode())
    return size + row.headers_bytes if headers else size


def _rows(section: Section) -> Iterator[_Row]:
    cursor = _Cursor(section)
    for cursor.record in range(section.header.record_count):
        row = _record(cursor)
        if row is not None:
            yield row
    if cursor.at != len(section.data):
        cursor.record = section.header.record_count
        raise cursor.fail(Fault.LEFTOVER)


def _record(cursor: _Cursor) -> _Row | None:
    """The next record, or None if its offset is not wanted."""
    section, header = cursor.section, cursor.section.header
    _enter_record(cursor)
    cursor.byte()  # attributes: no bit has a meaning yet
    timestamp_delta = cursor.varint(64)
    offset_delta = cursor.varint()
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise cursor.fail(Fault.OFFSET_DELTA)
    key = cursor.blob(Fault.KEY_LENGTH)
    value = cursor.blob(Fault.VALUE_LENGTH)
    headers, headers_bytes = _headers(cursor)
    if cursor.at != cursor.end:
        raise cursor.fail(Fault.RECORD_SIZE)
    cursor.end = len(section.data)
    offset = header.base_offset + offset_delta
    if not section.start <= offset < section.end:
        return None
    late = section.log_append_time
    timestamp = header.max_timestamp if late else header.base_timestamp + timestamp_delta
    if abs(timestamp) > _MILLISECONDS_MAX:
        raise cursor.fail(Fault.TIMESTAMP)
    topic, partition = section.tp
    times = (timestamp * 1000, int(late))
    return _Row(key, value, topic, partition, offset, *times, headers, headers_bytes)


def _enter_record(cursor: _Cursor) -> None:
    """Read the record's length and narrow the cursor to it."""
    if cursor.at == cursor.end:
        raise cursor.fail(Fault.MISSING)
    length = cursor.varint()
    if not 0 <= length <= cursor.end - cursor.at:
        raise cursor.fail(Fault.RECORD_LENGTH)
    cursor.end = cursor.at + length


def _headers(cursor: _Cursor) -> tuple[list[tuple[str, bytes | None]], int]:
    """The headers and the bytes of their keys and values."""
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
        headers.append((key.decode("utf-8", "replace"), value))  # as Java's String does
        size += len(key) + len(value or b"")
    return headers, size
