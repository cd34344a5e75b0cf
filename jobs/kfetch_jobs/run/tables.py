"""Delta tables by path or name, and the micro-batches that their logs record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kfetch_jobs.config import Job, TableLocation, write_way
from kfetch_jobs.config.write_way import AUTO_MERGE

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

Check = Callable[[], None]
"""Raises an error if this process must not write any more. See ``job_lock.Fence``."""


def unfenced() -> None:
    """A ``Check`` that lets everything be written."""


def existing_table(spark: SparkSession, location: TableLocation) -> DeltaTable | None:
    """Returns a Delta table; None if there is none."""
    from delta.tables import DeltaTable

    if location.table:
        exists = bool(spark.catalog.tableExists(location.table))
        return DeltaTable.forName(spark, location.table) if exists else None
    path = str(location.path)
    return DeltaTable.forPath(spark, path) if DeltaTable.isDeltaTable(spark, path) else None


def may_evolve(spark: SparkSession, job: Job) -> bool:
    """Returns whether Delta may add columns to the job's table."""
    return write_way.may_evolve(job, {AUTO_MERGE: spark.conf.get(AUTO_MERGE, None) or ""})


def has_batch(table: DeltaTable | None, query: str, number: int) -> bool:
    """Returns whether a table's log records a micro-batch of a query, or a later one."""
    return last_batches(table).get(query, -1) >= number


def last_batches(table: DeltaTable | None) -> Mapping[str, int]:
    """Returns the queries that have written to a table, and the last micro-batch of each.

    Delta has no public function for it. Its log's snapshot has the last ``txnVersion`` of each
    ``txnAppId``, as its protocol says (SetTransaction). Spark reads the log again for it: another
    process may have written since.
    """
    if table is None:
        return {}
    log: Any = table._jdt.deltaLog()
    # Python can't leave out arguments of Scala. These are their defaults: not a stale snapshot.
    defaults = [getattr(log, f"update$default${number}")() for number in (1, 2, 3)]
    written = log.update(*defaults).setTransactions()
    each = map(written.apply, range(written.size()))
    return {str(one.appId()): int(one.version()) for one in each}


def append(
    location: TableLocation,
    rows: DataFrame,
    query: str,
    number: int,
    options: Mapping[str, str] | None = None,
    partition_by: Sequence[str] = (),
) -> None:
    """Append a micro-batch. Delta skips a batch that the table has already."""
    writer = rows.write.format("delta").mode("append").options(**(options or {}))
    writer = writer.option("txnAppId", query).option("txnVersion", number)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    if location.table:
        writer.saveAsTable(location.table)
    else:
        writer.save(location.path)
