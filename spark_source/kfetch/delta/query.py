"""``delta.stream``: a streaming query that copies topics into a Delta table."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfetch.delta.log import TableLog, WrittenFile
from kfetch.delta.partitions import PartitionColumn, computed_fields, parse_partitions
from kfetch.delta.plan import WritePlan, file_settings
from kfetch.delta.source import PLAN, FilesDataSource
from kfetch.delta.types import TableField, table_fields
from kfetch.errors import NotBuilt
from kfetch.spark.options import parse
from kfetch.spark.source import KfetchDataSource
from kfetch.storage.locations import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

_START_S = 600
"""A micro-batch may begin before ``start`` returns, and waits for that so many seconds."""


def stream(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    table: str,
    checkpoint: str,
    trigger: Mapping[str, Any] | None = None,
    partition_by: Mapping[str, str] | Sequence[str] = (),
    merge_schema: bool = False,
    name: str | None = None,
) -> StreamingQuery:
    """Start a query that appends records to a Delta table. Its tasks write the files themselves.

    ``options``: those of ``format("kfetch")``. They choose the columns. ``table``: the table's
    directory, on a disk that the driver and all executors see. Without a table there, one is
    created. ``checkpoint``: the query's checkpoint. Spark's own sink can go on with it, and this
    function with that of Spark's sink. ``trigger``: the arguments of ``DataStreamWriter.trigger``.
    ``partition_by``: columns, or names and expressions, such as
    ``{"day": "date(timestamp, 'UTC')"}``. The functions are date, year, month and hour. Without a
    zone, that of Spark's session holds. ``merge_schema``: add missing columns to the table.

    Raises OptionError for wrong arguments, TableRefused for a table that kfetch can't write, and
    NotBuilt for a table that is not on a local disk, and for Spark Connect.
    """
    directory = _directory(spark, table)
    parsed, source = parse(options), KfetchDataSource(dict(options))
    schema = source.schema()
    fields = table_fields(schema.jsonValue()["fields"])
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    partitions = parse_partitions(partition_by, fields, zone)
    table_log = TableLog(
        directory, [*fields, *computed_fields(partitions)], [one.name for one in partitions]
    )
    described = table_log.open(merge_schema=merge_schema)
    plan = WritePlan(
        directory=str(directory),
        source_schema=schema.json(),
        columns=_file_columns(fields, described.fields, partitions),
        partitions=partitions,
        **file_settings(described.properties, parsed.agent.memory_bytes),
    )
    return _start(spark, {**options, PLAN: plan.to_json()}, table_log, checkpoint, trigger, name)


def _directory(spark: SparkSession, table: str) -> Path:
    if not hasattr(spark, "_jvm"):
        raise NotBuilt(
            "kfetch.delta does not work with Spark Connect", action="use a session of this process"
        )
    settings = dict(spark.sparkContext.getConf().getAll())
    directory = local_path(table, settings)
    if directory is None:
        raise NotBuilt(
            f"kfetch.delta writes tables on local disks alone, and {table} is elsewhere",
            action="write it with Spark: writeStream.format('delta')",
        )
    return directory.absolute()


def _file_columns(
    fields: Sequence[TableField], table: Sequence[TableField], partitions: Sequence[PartitionColumn]
) -> dict[str, str]:
    """Returns the stream's name of each column of the files, with the table's name."""
    ours = {field["name"].lower(): field["name"] for field in fields}
    outside = {one.name.lower() for one in partitions}
    names = [field["name"] for field in table]
    return {ours[n.lower()]: n for n in names if n.lower() in ours and n.lower() not in outside}


def _start(
    spark: SparkSession,
    options: Mapping[str, str],
    table_log: TableLog,
    checkpoint: str,
    trigger: Mapping[str, Any] | None,
    name: str | None,
) -> StreamingQuery:
    started: Future[str] = Future()

    def write(files: DataFrame, batch: int) -> None:
        _commit(table_log, files, started.result(_START_S), batch)

    spark.dataSource.register(FilesDataSource)
    frame = spark.readStream.format(FilesDataSource.name()).options(**options).load()
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    writer = writer.trigger(**trigger) if trigger else writer
    query = (writer.queryName(name) if name else writer).start()
    started.set_result(str(query.id))
    return query


def _commit(table_log: TableLog, files: DataFrame, query: str, batch: int) -> None:
    """Let tasks write the files of a micro-batch, and commit them, unless the table has it."""
    if table_log.has_batch(query, batch):
        log.warning(
            "kfetch: the table has micro-batch %d already, so it is not written again. Its rows "
            "stay as they are, even if the options have changed since",
            batch,
        )
        return
    written = [
        WrittenFile(**row.asDict() | {"partitions": json.loads(row.partitions)})
        for row in files.collect()
    ]
    if written:
        table_log.commit(query, batch, written)
