"""The Arrow schema that Spark expects, and columns made from ready buffers.

It refuses batches that int32 offsets cannot address.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_source.errors import KfetchError

__all__ = [
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "Columns",
    "binary",
    "check_bytes",
    "check_size",
    "headers_list",
    "numbers",
    "room",
    "schema_of",
    "utf8_keys",
]


class Columns(NamedTuple):
    """The columns beyond the connector's seven, which are always there. Hashable."""

    headers: bool = False
    leader_epoch: bool = False
    """``leaderEpoch int``: the record batch's, null where brokers knew none yet."""
    serialized_sizes: bool = False
    """``serializedKeySize int, serializedValueSize int``: bytes, null for a null."""


_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_HEADERS = pa.field("headers", pa.list_(pa.field("element", _HEADER)))

# Spark's Kafka schema (KafkaRecordToRowConverter), as pyspark's to_arrow_schema words it.
SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS: pa.Schema = SCHEMA.append(_HEADERS)


@cache
def schema_of(columns: Columns) -> pa.Schema:
    """The schema of a batch with these columns, in this order."""
    schema = SCHEMA_WITH_HEADERS if columns.headers else SCHEMA
    more = ["leaderEpoch"] * columns.leader_epoch
    more += ["serializedKeySize", "serializedValueSize"] * columns.serialized_sizes
    for name in more:
        schema = schema.append(pa.field(name, pa.int32()))
    return schema


# Spark's schema has binary and string, not their large forms: offsets are int32 (Arrow columnar
# format), so no column may pass this; the whole batch, then, may not either.
BATCH_BYTES_MAX = 2**31 - 1
_ROW_BYTES = 3 * 4 + 2 * 4 + 2 * 8  # offsets of key, value, topic; two int32; two int64
_HEADER_BYTES = 2 * 4


def room(count: int, kind: type[np.generic]) -> np.ndarray[Any, Any]:
    """Memory for so many numbers, not zeroed, from Arrow's pool.

    The pool keeps what is given back, where malloc returns it to the system: fresh pages cost more
    than decoding does (1.2 ms against 0.1 ms for the columns of 4 MiB).
    """
    size = max(count, 1) * np.dtype(kind).itemsize
    return np.frombuffer(pa.allocate_buffer(size), kind)[:count]


def check_bytes(size: int) -> None:
    """Refuse sections whose bytes int32 offsets might not address."""
    if size > BATCH_BYTES_MAX:
        raise KfetchError(
            f"the records of one decode call have {size} bytes, and an Arrow batch holds at most "
            f"{BATCH_BYTES_MAX}: lower kafka.max.partition.fetch.bytes",
            size=size,
        )


def check_size(*, rows: int, headers: int, data_bytes: int) -> None:
    """Refuse what would not fit into one RecordBatch."""
    size = rows * _ROW_BYTES + headers * _HEADER_BYTES + data_bytes
    if size > BATCH_BYTES_MAX:
        raise KfetchError(
            f"{rows} records of one decode call need {size} bytes, and an Arrow batch holds at "
            f"most {BATCH_BYTES_MAX}: lower kafka.max.partition.fetch.bytes",
            rows=rows,
            size=size,
        )


def binary(
    kind: pa.DataType,
    offsets: np.ndarray[Any, Any],
    data: np.ndarray[Any, Any],
    valid: np.ndarray[Any, Any] | None,
    nulls: int,
) -> pa.Array:
    """A binary or string column over buffers, without a copy."""
    bits = pa.py_buffer(valid) if nulls and valid is not None else None
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers, null_count=nulls)


def numbers(
    kind: pa.DataType,
    values: np.ndarray[Any, Any],
    valid: np.ndarray[Any, Any] | None = None,
    nulls: int = 0,
) -> pa.Array:
    """A column of numbers over a buffer, without a copy."""
    bits = pa.py_buffer(valid) if nulls and valid is not None else None
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)], null_count=nulls)


def headers_list(
    offsets: np.ndarray[Any, Any],
    valid: np.ndarray[Any, Any],
    nulls: int,
    keys: pa.Array,
    values: pa.Array,
) -> pa.Array:
    """The headers column; null where a record has none."""
    element = pa.Array.from_buffers(_HEADER, len(keys), [None], children=[keys, values])
    bits = pa.py_buffer(valid) if nulls else None
    return pa.Array.from_buffers(
        _HEADERS.type,
        len(offsets) - 1,
        [bits, pa.py_buffer(offsets)],
        null_count=nulls,
        children=[element],
    )


def utf8_keys(keys: pa.Array) -> pa.Array:
    """Header keys with what is not UTF-8 replaced by U+FFFD, as Java's String does.

    Arrow checks the whole column at memory speed; Python touches keys only if that fails.
    """
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = pa.Array.from_buffers(pa.binary(), len(keys), keys.buffers())
        return pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
    return keys
