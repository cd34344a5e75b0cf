"""The Arrow schema that Spark expects, and columns over buffers that a decoder has filled.

Raises KfetchError for batches that int32 offsets cannot address.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError

__all__ = [
    "HEADERS_TYPE",
    "ROW_BYTES",
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "ColumnBuffers",
    "Columns",
    "check_bytes",
    "check_size",
    "column",
    "empty_array",
    "headers_list",
    "schema_of",
    "utf8_keys",
]


class Columns(NamedTuple):
    """The optional columns, beside the seven of Spark's Kafka source. Hashable."""

    headers: bool = False
    leader_epoch: bool = False
    """``leaderEpoch int``: that of the record batch, null in formats without one."""
    serialized_sizes: bool = False
    """``serializedKeySize int, serializedValueSize int``: bytes, null for a null."""


_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", _HEADER))

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
SCHEMA_WITH_HEADERS: pa.Schema = SCHEMA.append(pa.field("headers", HEADERS_TYPE))


@cache
def schema_of(columns: Columns) -> pa.Schema:
    """Returns the schema of a batch with these columns, in this order."""
    schema = SCHEMA_WITH_HEADERS if columns.headers else SCHEMA
    names = ["leaderEpoch"] * columns.leader_epoch
    names += ["serializedKeySize", "serializedValueSize"] * columns.serialized_sizes
    for name in names:
        schema = schema.append(pa.field(name, pa.int32()))
    return schema


# Spark's schema has binary and string, not their large forms, so their offsets are int32 (Arrow
# columnar format). No column may be larger than this. kfetch limits the whole batch to it.
BATCH_BYTES_MAX = 2**31 - 1
ROW_BYTES = 3 * 4 + 2 * 4 + 2 * 8  # offsets of key, value, topic; two int32; two int64
"""Bytes of a row beside its key, value, topic and headers."""
_HEADER_BYTES = 2 * 4


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


def check_size(*, rows: int, headers: int, data_bytes: int) -> None:
    """Raises KfetchError for rows that don't fit into one RecordBatch."""
    size = rows * ROW_BYTES + headers * _HEADER_BYTES + data_bytes
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


def utf8_keys(keys: pa.Array[Any]) -> pa.Array[Any]:
    """Returns header keys with U+FFFD in place of bytes that are not UTF-8, like Java's String.

    Arrow checks the whole column at memory speed. Python decodes keys only if that fails.
    """
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw: Any = pa.Array.from_buffers(pa.binary(), len(keys), keys.buffers())
        return pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
    return keys
