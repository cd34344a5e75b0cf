"""The columns, their Arrow schema, and arrays over buffers that a decoder has filled.

Raises KfetchError for batches that int32 offsets cannot address.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError
from kfetch.records.java_text import java_text

Array = np.ndarray[Any, Any]
"""An array of numpy: numbers in memory that Arrow and the compiled loops share."""


class Columns(NamedTuple):
    """The columns of a batch: the seven of Spark's Kafka source and optional ones. Hashable."""

    headers: bool = False
    leader_epoch: bool = False
    """``leaderEpoch int``: that of the record batch, null in formats without one."""
    serialized_sizes: bool = False
    """``serializedKeySize int, serializedValueSize int``: bytes, null for a null."""
    headers_as_map: bool = False
    """Whether ``headers`` is a map. It has the last value of each key, as Kafka's ``lastHeader``,
    and its keys are in the order of their first headers."""
    names: tuple[str, ...] = ()
    """The columns to build, in their order. Empty: the seven, then the optional ones."""
    strings: tuple[str, ...] = ()
    """Those of ``key`` and ``value`` that are strings: the same bytes, without a check, as in
    Spark's ``CAST(value AS STRING)``."""
    typed_bytes: int = 0
    """Bytes for each row that become structs of keys and values, beside their text."""


STANDARD_COLUMNS = Columns()
"""The seven columns of Spark's Kafka source."""


_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", _HEADER))
_ENTRY = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS_MAP_TYPE = pa.map_(*_ENTRY)

# Spark's Kafka schema (KafkaRecordToRowConverter), as pyspark's to_arrow_schema gives it.
_FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
SCHEMA: pa.Schema = pa.schema(_FIELDS)


@cache
def delivered(columns: Columns) -> tuple[str, ...]:
    """Returns the names of the columns, in their order."""
    optional = ["headers"] * columns.headers + ["leaderEpoch"] * columns.leader_epoch
    optional += ["serializedKeySize", "serializedValueSize"] * columns.serialized_sizes
    return columns.names or (*SCHEMA.names, *optional)


@cache
def schema_of(columns: Columns) -> pa.Schema:
    """Returns the schema of a batch with these columns, in this order."""
    return pa.schema([pa.field(name, _type_of(name, columns)) for name in delivered(columns)])


def _type_of(name: str, columns: Columns) -> pa.DataType:
    if name in columns.strings:
        return pa.string()
    if name == "headers":
        return HEADERS_MAP_TYPE if columns.headers_as_map else HEADERS_TYPE
    return SCHEMA.field(name).type if name in SCHEMA.names else pa.int32()


# Spark's schema has binary and string, not their large forms, so their offsets are int32 (Arrow
# columnar format). No column may be larger than this. kfetch limits the whole batch to it.
BATCH_BYTES_MAX = 2**31 - 1
_WIDE = ("offset", "timestamp")  # int64; the others have an int32: the number, or where data ends
_HEADER_BYTES = 2 * 4


@cache
def _fixed_bytes(columns: Columns) -> int:
    return sum(8 if name in _WIDE else 4 for name in delivered(columns))


def row_bytes(columns: Columns, topic_bytes: int = 0) -> int:
    """Returns the bytes of a row beside its key, value and headers.

    ``topic_bytes``: those of the topic's name.
    """
    return _fixed_bytes(columns) + (topic_bytes if "topic" in delivered(columns) else 0)


def empty_array(count: int, kind: type[np.generic]) -> np.ndarray[Any, Any]:
    """Returns an array of ``count`` numbers, not zeroed, in memory of Arrow's pool.

    The pool keeps freed memory, where malloc returns it to the system. Fresh pages cost more than
    decoding does (1.2 ms against 0.1 ms for the columns of 4 MiB).
    """
    size = max(count, 1) * np.dtype(kind).itemsize
    memory: Any = pa.allocate_buffer(size)
    numbers: np.ndarray[Any, Any] = np.frombuffer(memory, kind)
    return numbers[:count]


def check_bytes(size: int) -> None:
    """Raises KfetchError for more bytes of records than int32 offsets can address."""
    if size > BATCH_BYTES_MAX:
        raise KfetchError(
            f"the records of one decode call have {size} bytes, and an Arrow batch holds at most "
            f"{BATCH_BYTES_MAX}: lower kafka.max.partition.fetch.bytes",
            size=size,
        )


def check_size(columns: Columns, *, rows: int, headers: int, data_bytes: int) -> None:
    """Raises KfetchError for rows that don't fit into one RecordBatch.

    ``headers`` and ``data_bytes``: those of the columns that are built.
    """
    size = rows * row_bytes(columns) + headers * _HEADER_BYTES + data_bytes
    if size > BATCH_BYTES_MAX:
        raise KfetchError(
            f"{rows} records of one decode call need {size} bytes, and an Arrow batch holds at "
            f"most {BATCH_BYTES_MAX}: lower kafka.max.partition.fetch.bytes",
            rows=rows,
            size=size,
        )


class ColumnBuffers:
    """Several buffers, not zeroed, in one allocation of Arrow's pool, because each one costs time.

    Each buffer keeps the whole allocation alive. Unwritten pages cost only address space.
    """

    def __init__(self, *sizes: int) -> None:
        *self._starts, total = accumulate((-(-size // 64) * 64 for size in sizes), initial=0)
        self._whole = pa.allocate_buffer(total)

    @property
    def addresses(self) -> list[int]:
        """The addresses of the buffers: multiples of 64 bytes, as Arrow recommends."""
        first = self._whole.address
        return [first + start for start in self._starts]

    def written(self, *sizes: int) -> list[pa.Buffer]:
        """Returns the buffers, cut down to their first ``sizes`` bytes."""
        return list(map(self._whole.slice, self._starts, sizes))


def column(
    kind: pa.DataType, rows: int, *buffers: pa.Buffer | None, nulls: int = 0
) -> pa.Array[Any]:
    """Returns a column over its buffers, the validity bitmap first, without a copy."""
    return pa.Array.from_buffers(kind, rows, list(buffers), null_count=nulls)


def headers_list(
    rows: int, buffers: list[pa.Buffer | None], nulls: int, element: list[pa.Array[Any]]
) -> pa.Array[Any]:
    """Returns the headers column, null where a record has none.

    ``element``: the keys and the values of all headers.
    """
    structs = pa.Array.from_buffers(_HEADER, len(element[0]), [None], children=element)
    return pa.Array.from_buffers(HEADERS_TYPE, rows, buffers, null_count=nulls, children=[structs])


def headers_map(
    rows: int, buffers: list[pa.Buffer | None], nulls: int, entries: list[pa.Array[Any]]
) -> pa.Array[Any]:
    """Returns the headers column as a map, null where a record has no header.

    ``entries``: the keys and the values of all headers, each key once in a row.
    """
    structs = pa.Array.from_buffers(_ENTRY, len(entries[0]), [None], children=entries)
    return pa.Array.from_buffers(
        HEADERS_MAP_TYPE, rows, buffers, null_count=nulls, children=[structs]
    )


def utf8_keys(keys: pa.Array[Any]) -> pa.Array[Any]:
    """Returns header keys with U+FFFD in place of bytes that are not UTF-8, like Java's String.

    Arrow checks the whole column at memory speed. Python decodes keys only if that fails.
    """
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw: Any = pa.Array.from_buffers(pa.binary(), len(keys), keys.buffers())
        return pa.array([java_text(key) for key in raw.to_pylist()], pa.string())
    return keys
