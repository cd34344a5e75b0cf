"""``delta.stream``: a streaming query that copies topics into a Delta table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfetch.delta.copying import TableCopy
from kfetch.errors import NotBuilt
from kfetch.storage.open import READABLE, StoredPath, stored_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_START_S = 600
"""A micro-batch may begin before ``start`` returns, and waits for that so many seconds."""


def stream(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    table: str,
    checkpoint: str,
    trigger: Mapping[str, Any] | None = None,
    select: Mapping[str, str] | None = None,
    partition_by: Mapping[str, str] | Sequence[str] = (),
    merge_schema: bool = False,
    name: str | None = None,
) -> StreamingQuery:
    """Start a query that appends records to a Delta table. Its tasks write the files themselves.

    ``options``: those of ``format("kfetch")``. They choose the columns. ``table``: the table's
    directory, on a disk that the driver and all executors see, or a URI of a store, such as
    ``s3a://lake/orders``. Without a table there, one is created. ``checkpoint``: the query's
    checkpoint. Spark's own sink can go on with it, and this function with that of Spark's sink.
    ``trigger``: the arguments of ``DataStreamWriter.trigger``. ``select``: the table's columns and
    what they are, such as ``{"id": "value.id"}``. Without it, they are the source's.
    ``partition_by``: columns, or names and expressions, such as
    ``{"day": "date(timestamp, 'UTC')"}``. The functions are date, year, month and hour. Without a
    zone, that of Spark's session holds. ``merge_schema``: add missing columns to the table.

    Raises OptionError for wrong arguments, TableRefused for a table that kfetch can't write, and
    NotBuilt for a table in a file system that kfetch can't write, and for Spark Connect.
    """
    if not hasattr(spark, "_jvm"):
        raise NotBuilt(
            "kfetch.delta does not work with Spark Connect", action="use a session of this process"
        )
    settings = dict(spark.sparkContext.getConf().getAll())
    copy = TableCopy(
        options,
        _place(table, settings),
        settings=settings,
        zone=spark.conf.get("spark.sql.session.timeZone") or "UTC",
        select=select,
        partition_by=partition_by,
    )
    started: Future[str] = Future()

    def write(files: DataFrame, batch: int) -> None:
        copy.write(files, started.result(_START_S), batch, lambda: None)

    writer = copy.frame(spark, merge_schema=merge_schema).writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", checkpoint)
    writer = writer.trigger(**trigger) if trigger else writer
    query = (writer.queryName(name) if name else writer).start()
    started.set_result(str(query.id))
    return query


def _place(table: str, settings: Mapping[str, str]) -> StoredPath:
    place = stored_path(table, settings)
    if place is None:
        raise NotBuilt(
            f"kfetch.delta writes tables in {READABLE} alone, and {table} is elsewhere",
            action="write it with Spark: writeStream.format('delta')",
        )
    return place.absolute() if isinstance(place, Path) else place
