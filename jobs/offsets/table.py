"""The rows of Delta tables that are to come again: deleted before a replay, restored when it is
undone.

A row is found by the columns ``partition`` and ``offset``, and ``topic`` where it tells rows apart,
as the source gives them. Delta keeps what is deleted, as versions of the table, until a VACUUM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from jobs.config import Job, Place
from jobs.errors import JobsError
from jobs.offsets.backup import Table
from jobs.offsets.moves import Range
from jobs.spark import cause_of, session

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession

__all__ = ["Rows", "affected", "opened", "restore"]

_PLACE = ("topic", "partition", "offset")
_WHOLE = {"byte", "short", "integer", "long"}
_RANGES = "topic STRING, partition INT, begin BIGINT, `end` BIGINT"


def affected(job: Job) -> list[Place]:
    """The tables in which rows that come again would be there twice: a merge replaces its rows."""
    appended = [job.target] if job.file.sink.mode == "append" else []
    return [*appended, *([job.dead_letters] if job.dead_letters else [])]


class Rows:
    """The affected tables of a job that are there, each with the columns that it needs."""

    def __init__(self, spark: SparkSession, job: Job, by_topic: bool) -> None:
        """``by_topic``: a partition's number alone does not tell a row's origin."""
        self._spark = spark
        self._tables = [
            (place, table, _columns(job, place, table, by_topic))
            for place in affected(job)
            if (table := _table(spark, place)) is not None
        ]

    def versions(self) -> list[Table]:
        """The tables as they are now."""
        return [
            Table(name=str(place), by_name=place.table is not None, version=_version(table))
            for place, table, _ in self._tables
        ]

    def delete(self, ranges: Sequence[Range]) -> dict[str, int]:
        """Delete the rows of these offsets; how many there were in each table."""
        rows = [(each.topic, each.partition, each.begin, each.end) for each in ranges]
        wanted = self._spark.createDataFrame(rows, _RANGES)
        return {str(place): _delete(table, wanted, by) for place, table, by in self._tables}


@contextmanager
def opened(job: Job, by_topic: bool) -> Iterator[Rows]:
    """Spark with the job's settings, for its tables. Raises JobsError for what Delta objects to."""
    with _spark(job) as spark:
        yield Rows(spark, job, by_topic)


def restore(job: Job, tables: Sequence[Table]) -> None:
    """Take tables back to their versions, as new versions: nothing of their history is lost."""
    with _spark(job) as spark:
        for each in tables:
            place = Place(
                path=None if each.by_name else each.name, table=each.name if each.by_name else None
            )
            table = _table(spark, place)
            if table is None:
                raise JobsError(f"{each.name} is no Delta table any more: restore it by hand")
            table.restoreToVersion(each.version)


@contextmanager
def _spark(job: Job) -> Iterator[SparkSession]:
    log = job.directory / "offsets.log"
    with session(job.spark, name=f"{job.name}-offsets", log=log) as spark:
        try:
            yield spark
        except JobsError:
            raise
        except Exception as cause:
            told = job.redacted(cause_of(cause))
            raise JobsError(f"job {job.name}: Delta refuses: {told} (see {log})") from cause


def _table(spark: SparkSession, place: Place) -> DeltaTable | None:
    from delta.tables import DeltaTable

    if place.table:
        return DeltaTable.forName(spark, place.table) if _is_table(spark, place.table) else None
    path = str(place.path)
    return DeltaTable.forPath(spark, path) if DeltaTable.isDeltaTable(spark, path) else None


def _is_table(spark: SparkSession, name: str) -> bool:
    return bool(spark.catalog.tableExists(name))


def _version(table: DeltaTable) -> int:
    return int(table.history(1).collect()[0]["version"])


def _columns(job: Job, place: Place, table: DeltaTable, by_topic: bool) -> tuple[str, ...]:
    """The columns by which rows are found; only what is sure to be the record's place will do."""
    types = {field.name.lower(): field.dataType.typeName() for field in table.toDF().schema.fields}
    fits = {name for name in ("partition", "offset") if types.get(name) in _WHOLE}
    fits |= {"topic"} & {name for name, kind in types.items() if kind == "string"}
    needed = {"partition", "offset"} | ({"topic"} if by_topic else set())
    if missing := sorted(needed - fits):
        raise JobsError(
            f"job {job.name}: {place} keeps no column {' and '.join(missing)} of its records, so "
            "nobody can tell which of its rows would be there twice: delete them yourself and use "
            "kfetch offsets reset, which leaves the table alone"
        )
    return tuple(name for name in _PLACE if name in fits)


def _delete(table: DeltaTable, ranges: Any, by: Sequence[str]) -> int:
    from pyspark.sql import functions as f

    row, offset = f.col, f.col("t.offset")
    same = [row(f"t.{name}") == row(f"r.{name}") for name in by if name != "offset"]
    found = [*same, offset >= row("r.begin"), offset < row("r.end")]
    condition = reduce(lambda left, right: left & right, found)
    table.alias("t").merge(ranges.alias("r"), condition).whenMatchedDelete().execute()
    metrics = table.history(1).collect()[0]["operationMetrics"]
    return int(metrics.get("numTargetRowsDeleted", 0))
