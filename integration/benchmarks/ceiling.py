"""What Spark can take: a Python data source that yields ready-made batches and does nothing else.

Batches have the shape of kfetch's (the same columns, value sizes and rows per batch), made once per
Python worker. No source that delivers such batches can be faster than this one.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kfetch.records.arrow import SCHEMA
from kfetch.spark.source import KfetchDataSource

NAME = "ceiling"

_BATCH_BYTES = 4 << 20  # raw, as in kfetch.agent.budget
_BATCHES = 16
_OVERHEAD_BYTES = 10  # of a record in a record batch, beside its value


@dataclass
class Share(InputPartition):
    """What one task yields."""

    partition: int
    rows: int
    size: int
    columns: tuple[str, ...]


class CeilingDataSource(DataSource):
    """Options: ``rows``, ``size`` (bytes per value), ``partitions``, ``columns`` (names)."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return NAME

    def schema(self) -> StructType | str:
        """The columns of kfetch."""
        asked = {"kafka.bootstrap.servers": "none:1", "subscribe": "none"}
        return KfetchDataSource(asked | self._chosen()).schema()

    def _chosen(self) -> dict[str, str]:
        return {name: self.options[name] for name in ("columns",) if name in self.options}

    def streamReader(self, schema: StructType) -> CeilingReader:
        """See DataSource."""
        return CeilingReader(
            *(int(self.options[name]) for name in ("rows", "size", "partitions")),
            columns=tuple(schema.fieldNames()),
        )


class CeilingReader(DataSourceStreamReader):
    """One micro-batch with everything in it."""

    def __init__(self, rows: int, size: int, partitions: int, *, columns: tuple[str, ...]) -> None:
        self._rows, self._size, self._partitions = rows, size, partitions
        self._columns = columns

    def initialOffset(self) -> dict[str, int]:
        """See DataSourceStreamReader."""
        return {"batch": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        """See DataSourceStreamReader."""
        return {"batch": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Share]:  # type: ignore[override]
        """An equal share for every task."""
        if start == end:
            return []
        rows = self._rows // self._partitions
        return [
            Share(number, rows, self._size, self._columns) for number in range(self._partitions)
        ]

    def read(self, share: Share) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Yield the same batches again and again."""
        enough = min(_BATCHES, -(-share.rows // _rows(share.size)))
        ready = itertools.cycle(_batches(share.size, enough, share.columns))
        left = share.rows
        while left:
            batch = next(ready)
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= min(left, batch.num_rows)


@functools.cache
def _batches(size: int, count: int, columns: tuple[str, ...]) -> list[pa.RecordBatch]:
    """As many as lie in memory, not in a processor's cache, as real data does; fewer if that is
    all that is asked for."""
    return [_batch(size).select(columns) for _ in range(count)]


def _rows(size: int) -> int:
    return _BATCH_BYTES // (size + _OVERHEAD_BYTES)


def _batch(size: int) -> pa.RecordBatch:
    rows = _rows(size)
    columns = {
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array([os.urandom(size) for _ in range(rows)], pa.binary()),
        "topic": pa.array(["drain"] * rows),
        "partition": pa.array([0] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([1_700_000_000_000_000] * rows, pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.record_batch(columns, schema=SCHEMA)
