"""Merges micro-batches into a Delta table, so that a key's row never becomes older.

``latestBy`` orders the rows of a key. Of a micro-batch, the greatest row counts. MERGE compares it
with the table's row, and passes over a row that is older. An equal row replaces the table's row:
after a replay with another transform, the same record comes again. NULL is the oldest value.

Offsets order the rows of one partition only. If a key has rows of two partitions, the job fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from kfetch_jobs.config import Job
from kfetch_jobs.config.merge_order import order_columns, reads_one_topic
from kfetch_jobs.run.spark_errors import UNORDERED
from kfetch_jobs.run.tables import existing_table, may_evolve

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"

_RANK = "_kfetch_rank"
_GONE = "_kfetch_gone"
_PLACES = ("_kfetch_first_place", "_kfetch_last_place")
_SCRATCH = (_RANK, *_PLACES)


def merge(job: Job, rows: DataFrame, query: str, number: int) -> None:
    """Merge a micro-batch by the job's keys. Delta skips a batch that the table has already."""
    spark = rows.sparkSession
    table = _table(spark, job, rows)
    places = _place_columns(job, rows, table)
    same = reduce(lambda left, right: left & right, map(_same, job.file.sink.keys))
    merging = table.alias("t").merge(_latest(job, rows, places).alias("s"), same)
    if may_evolve(spark, job):
        merging = merging.withSchemaEvolution()
    newer = _newer(order_columns(job), places)
    if job.file.sink.deleteWhen is None:
        merging = merging.whenMatchedUpdateAll(condition=newer).whenNotMatchedInsertAll()
    else:
        merging = _with_deletes(merging, rows.columns, newer)
    with _transaction_settings(spark, query, number):
        merging.execute()


def _with_deletes(merging: Any, columns: Sequence[str], newer: Column) -> Any:
    from pyspark.sql import functions as f

    # By name: the column _GONE must not get into the table.
    values = {_quoted(name): _quoted("s", name) for name in columns}
    gone = f.col(_quoted("s", _GONE))
    return (
        merging.whenMatchedDelete(newer & gone)
        .whenMatchedUpdate(newer & ~gone, set=values)
        .whenNotMatchedInsert(~gone, values=values)
    )


def _newer(order: Sequence[str], places: Sequence[str]) -> Column:
    """Whether the row is at least as new as the table's. NULL is less than all values."""
    from pyspark.sql import functions as f

    newer = f.lit(True)
    for name in reversed(order):  # structs would need equal types, and a table may have wider ones
        ours, theirs = _both(name)
        greater = f.coalesce(ours > theirs, ours.isNotNull() & theirs.isNull())
        newer = greater | (ours.eqNullSafe(theirs) & newer)
    if not places:
        return newer
    # MERGE also evaluates this for rows without a counterpart, whose columns are null.
    differ = [ours != theirs for ours, theirs in map(_both, places)]
    elsewhere = reduce(lambda left, right: left | right, differ)
    return f.when(elsewhere, _unordered(places)).otherwise(newer)


def _both(name: str) -> tuple[Column, Column]:
    """A column of the micro-batch's row and of the table's row."""
    from pyspark.sql import functions as f

    return f.col(_quoted("s", name)), f.col(_quoted("t", name))


def _unordered(places: Sequence[str]) -> Column:
    from pyspark.sql import functions as f

    what = "topics" if "topic" in places else "partitions"
    return f.raise_error(
        f"{UNORDERED}the rows of a key by offset: they are of several {what}: let sink.latestBy "
        "name columns that order them, such as a time"
    ).cast("boolean")


def _same(name: str) -> Column:
    # Null-safe: else a null key would match nothing, and every batch would insert it again.
    ours, theirs = _both(name)
    return theirs.eqNullSafe(ours)


def _quoted(*names: str) -> str:
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def _latest(job: Job, rows: DataFrame, places: Sequence[str]) -> DataFrame:
    """The row of each key that is greatest by ``latestBy``: Delta refuses two rows for one key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    sink = job.file.sink
    order = [f.col(_quoted(name)).desc() for name in order_columns(job)]
    key = Window.partitionBy(*(_quoted(name) for name in sink.keys))
    ranked = rows.withColumn(_RANK, f.row_number().over(key.orderBy(*order)))
    first = f.col(_RANK) == 1
    if places:
        place = f.struct(*map(_quoted, places))
        ends = zip(_PLACES, (f.min(place).over(key), f.max(place).over(key)), strict=True)
        ranked = ranked.withColumns(dict(ends))
        one_place = f.col(_PLACES[0]) == f.col(_PLACES[1])
        first = f.when(one_place, first).otherwise(_unordered(places))
    latest = ranked.where(first).drop(*_SCRATCH)
    if sink.deleteWhen is None:
        return latest
    # NULL is not true: such a row stays.
    return latest.withColumn(_GONE, f.coalesce(f.expr(sink.deleteWhen), f.lit(False)))


def _place_columns(job: Job, rows: DataFrame, table: DeltaTable) -> list[str]:
    """The columns with the records' place, if rows are ordered by offset and have such columns.

    A column ``topic`` may be a field of the values, so it counts only if the job reads several.
    """
    if [name.lower() for name in order_columns(job)] != ["offset"]:
        return []
    whole = {name.lower() for name, kind in rows.dtypes if kind in ("int", "bigint")}
    known = {name.lower() for name in rows.columns} & _names(table)
    places = [name for name in ("partition",) if name in whole & known]
    return places if reads_one_topic(job) or "topic" not in known else ["topic", *places]


def _names(table: DeltaTable) -> set[str]:
    return {name.lower() for name in table.toDF().columns}


def _missing(job: Job, table: DeltaTable) -> list[str]:
    return [name for name in order_columns(job) if name.lower() not in _names(table)]


def _table(spark: SparkSession, job: Job, rows: DataFrame) -> DeltaTable:
    """The table. Creates it with the rows' columns if it does not exist."""
    from delta.tables import DeltaTable

    builder = DeltaTable.createIfNotExists(spark)
    if job.target.table:
        builder = builder.tableName(job.target.table)
    else:
        builder = builder.location(str(job.target.path))
    builder = builder.addColumns(rows.schema)
    if job.file.sink.partitionBy:
        builder = builder.partitionedBy(*job.file.sink.partitionBy)
    table = builder.execute()
    if not (may_evolve(spark, job) and _missing(job, table)):
        return table
    _add_columns(spark, job, rows)
    return existing_table(spark, job.target) or table


def _add_columns(spark: SparkSession, job: Job, rows: DataFrame) -> None:
    """Add the rows' columns to the table. MERGE adds them too late for its own conditions."""
    empty = spark.createDataFrame([], rows.schema).write.format("delta").mode("append")
    empty = empty.option("mergeSchema", "true")
    if job.target.table:
        empty.saveAsTable(job.target.table)
    else:
        empty.save(job.target.path)


@contextmanager
def _transaction_settings(spark: SparkSession, query: str, number: int) -> Iterator[None]:
    """Set the batch's record for Delta's MERGE, which reads it from the session.

    The session belongs to this query alone.
    """
    spark.conf.set(_APP_ID, query)
    spark.conf.set(_VERSION, str(number))
    try:
        yield
    finally:
        spark.conf.unset(_APP_ID)
        spark.conf.unset(_VERSION)
