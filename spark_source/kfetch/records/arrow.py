"""The Arrow schema that Spark expects, and columns made from ready buffers.

It refuses batches that int32 offsets cannot address.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError

__all__ = [
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "Columns",
    "Memory",
    "check_bytes",
    "check_size",
    "column",
    "headers_list",
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


class Memory:
    """Memory for several buffers, not zeroed, from Arrow's pool at once: allocations add up.

    Each buffer keeps all of it alive. What is not written costs address space only.
    """

    def __init__(self, *sizes: int) -> None:
        *self._starts, total = accumulate((-(-size // 64) * 64 for size in sizes), initial=0)
        self._whole = pa.allocate_buffer(total)

    @property
    def addresses(self) -> list[int]:
        """Where the buffers lie: each at a multiple of 64 bytes, as Arrow would have it."""
        first = self._whole.address
        return [first + start for start in self._starts]

    def buffers(self, *sizes: int) -> list[pa.Buffer]:
        """The buffers, cut down to what was written."""
        return list(map(self._whole.slice, self._starts, sizes))


def column(kind: pa.DataType, rows: int, *buffers: pa.Buffer | None, nulls: int = 0) -> pa.Array:
    """A column over its buffers, the bits of validity first, without a copy."""
    return pa.Array.from_buffers(kind, rows, list(buffers), null_count=nulls)


def headers_list(
    rows: int, buffers: list[pa.Buffer | None], nulls: int, element: list[pa.Array]
) -> pa.Array:
    """The headers column, null where a record has none, of the keys and the values of them all."""
    structs = pa.Array.from_buffers(_HEADER, len(element[0]), [None], children=element)
    return pa.Array.from_buffers(_HEADERS.type, rows, buffers, null_count=nulls, children=[structs])


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
