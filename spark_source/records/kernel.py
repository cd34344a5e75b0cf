"""Records to Arrow, compiled: the same answers as ``reference``, millions of rows a second.

This half makes the table of sections and the buffers, ``loops`` reads and writes them, and the
buffers become columns without a copy. Importing it imports numba. It refuses to word what is wrong
with a record: ``loops`` gives a number, and ``faults`` has the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_source.records import arrow, loops
from spark_source.records.batch import Section
from spark_source.records.faults import Fault, failure
from spark_source.records.loops import (
    BARE_ROWS,
    FAULT_RECORD,
    FAULT_SECTION,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADER_VALUE_NULLS,
    HEADERS,
    KEY_BYTES,
    KEY_NULLS,
    ROWS,
    TOPIC_BYTES,
    TOTALS,
    VALUE_BYTES,
    VALUE_NULLS,
    WIDTH,
)

__all__ = ["decode"]

Array = np.ndarray[Any, Any]


def decode(sections: Sequence[Section], *, headers: bool) -> pa.RecordBatch | None:
    """All wanted rows of all sections as one RecordBatch, or None if there are none."""
    table, names = _table(sections)
    totals = np.zeros(TOTALS, np.int64)
    code = loops.measure(table, totals)
    if code:
        bad = sections[totals[FAULT_SECTION]]
        raise failure(Fault(code), bad.tp, bad.header.base_offset, int(totals[FAULT_RECORD]))
    if not totals[ROWS]:
        return None
    counts = [int(total) for total in totals]
    header_bytes = counts[HEADER_KEY_BYTES] + counts[HEADER_VALUE_BYTES]
    arrow.check_size(
        rows=counts[ROWS],
        headers=counts[HEADERS] if headers else 0,
        data_bytes=sum(counts[KEY_BYTES : TOPIC_BYTES + 1]) + (header_bytes if headers else 0),
    )
    columns = _columns(table, names, counts)
    if not headers:
        return pa.RecordBatch.from_arrays(columns, schema=arrow.SCHEMA)
    columns.append(_headers_column(table, counts))
    return pa.RecordBatch.from_arrays(columns, schema=arrow.SCHEMA_WITH_HEADERS)


def _table(sections: Sequence[Section]) -> tuple[Array, Array]:
    """The sections as numbers, and the names of their topics, one after the other."""
    names, places = bytearray(1), dict[str, tuple[int, int]]()
    table = np.empty((len(sections), WIDTH), np.int64)
    for i, (tp, start, end, header, late, data, address) in enumerate(sections):
        if tp.topic not in places:
            name = tp.topic.encode()
            places[tp.topic] = (len(names), len(name))
            names += name
        table[i] = (
            *(
                address,
                len(data),
                header.record_count,
                header.base_offset,
                header.last_offset_delta,
            ),
            *(header.base_timestamp, header.max_timestamp, late),
            *(start, end, tp.partition, *places[tp.topic]),
        )
    return table, np.frombuffer(names, np.uint8)


def _bits(count: int) -> Array:
    return np.zeros((count + 7) // 8, np.uint8)


def _columns(table: Array, names: Array, counts: list[int]) -> list[pa.Array]:
    rows = counts[ROWS]
    keys, values, topics = (np.empty(rows + 1, np.int32) for _ in range(3))
    key_data, value_data, topic_data = (
        np.empty(counts[i], np.uint8) for i in (KEY_BYTES, VALUE_BYTES, TOPIC_BYTES)
    )
    key_valid, value_valid = _bits(rows), _bits(rows)
    partitions, time_types = np.empty(rows, np.int32), np.empty(rows, np.int32)
    offsets, times = np.empty(rows, np.int64), np.empty(rows, np.int64)
    loops.fill_rows(
        *(table, names, keys, key_data, key_valid, values, value_data, value_valid),
        *(topics, topic_data, partitions, offsets, times, time_types),
    )
    timestamp = arrow.SCHEMA.field("timestamp").type
    return [
        arrow.binary(pa.binary(), keys, key_data, key_valid, counts[KEY_NULLS]),
        arrow.binary(pa.binary(), values, value_data, value_valid, counts[VALUE_NULLS]),
        arrow.binary(pa.string(), topics, topic_data, None, 0),
        pa.array(partitions),
        pa.array(offsets),
        pa.Array.from_buffers(timestamp, rows, [None, pa.py_buffer(times)], null_count=0),
        pa.array(time_types),
    ]


def _headers_column(table: Array, counts: list[int]) -> pa.Array:
    rows, total = counts[ROWS], counts[HEADERS]
    if not total:
        return pa.nulls(rows, arrow.SCHEMA_WITH_HEADERS.field("headers").type)
    lists, list_valid, value_valid = np.empty(rows + 1, np.int32), _bits(rows), _bits(total)
    keys, values = np.empty(total + 1, np.int32), np.empty(total + 1, np.int32)
    key_data = np.empty(counts[HEADER_KEY_BYTES], np.uint8)
    value_data = np.empty(counts[HEADER_VALUE_BYTES], np.uint8)
    loops.fill_headers(table, lists, list_valid, keys, key_data, values, value_data, value_valid)
    return arrow.headers_list(
        lists,
        list_valid,
        counts[BARE_ROWS],
        arrow.utf8_keys(arrow.binary(pa.string(), keys, key_data, None, 0)),
        arrow.binary(pa.binary(), values, value_data, value_valid, counts[HEADER_VALUE_NULLS]),
    )
