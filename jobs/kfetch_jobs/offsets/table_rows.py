"""The rows of Delta tables that are to come again: deleted before a replay, restored when it is
undone.

A row is found by the columns ``partition`` and ``offset``, and ``topic`` where it tells rows apart,
as the source gives them. Delta keeps what is deleted, as versions of the table, until a VACUUM.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from kfetch_jobs.checkpoints.backup import OffsetRange, TableVersion
from kfetch_jobs.config import Job, TableLocation
from kfetch_jobs.errors import JobsError
from kfetch_jobs.jvm.spark import cause_of, session, text_of

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["AppendedRows", "appended_tables", "open_rows", "place_columns"]

_WHOLE = {"byte", "short", "integer", "long"}
_GONE = ("Not all files from version", "DELTA_CANNOT_RESTORE_TABLE_VERSION")
"""What Delta says, with a hundred paths, where a version's files or log are gone."""
_RANGES = "topic STRING, partition INT, begin BIGINT, `end` BIGINT"


def appended_tables(job: Job) -> list[TableLocation]:
    """The tables in which rows that come again would be there twice: a merge replaces its rows."""
    appended = [job.target] if job.file.sink.mode == "append" else []
    return [*appended, *([job.dead_letters] if job.dead_letters else [])]


class AppendedRows:
    """The affected tables of a job that are there, by their path or name."""

    def __init__(self, spark: SparkSession, job: Job, by_topic: bool) -> None:
        """``by_topic``: a partition's number alone does not tell a row's origin."""
        self._spark = spark
        self._job = job
        self._by_topic = by_topic
        found = {str(place): _table(spark, place) for place in appended_tables(job)}
        self._tables = {name: table for name, table in found.items() if table is not None}
        self._named = {str(place) for place in appended_tables(job) if place.table}

    @property
    def names(self) -> frozenset[str]:
        """Of the tables that are there."""
        return frozenset(self._tables)

    def has_rows(self, name: str) -> bool:
        """Whether a table has a row."""
        return not self._tables[name].toDF().isEmpty()

    def check(self, names: Iterable[str]) -> None:
        """Raise JobsError if a table lacks the columns that tell its rows' places."""
        for name in names:
            self._columns(name)

    def count(self, ranges: Sequence[OffsetRange]) -> dict[str, int]:
        """How many rows of these offsets each table has."""
        self.check(self._tables)
        wanted = self._wanted(ranges)
        return {
            name: table.toDF()
            .alias("t")
            .join(wanted.alias("r"), _matches(self._columns(name)), "leftsemi")
            .count()
            for name, table in self._tables.items()
        }

    def versions(self, names: Collection[str]) -> list[TableVersion]:
        """Tables as they are now."""
        return [
            TableVersion(name=name, by_name=name in self._named, version=_version(table))
            for name, table in self._tables.items()
            if name in names
        ]

    def delete(self, ranges: Sequence[OffsetRange], names: Collection[str]) -> dict[str, int]:
        """Delete the rows of these offsets from tables; how many there were in each."""
        if not ranges or not names:
            return {}
        wanted = self._wanted(ranges)
        return {name: self._delete(name, wanted) for name in sorted(names)}

    def version(self, table: TableVersion) -> int:
        """Which one a table is at. Raises JobsError if it is not there any more."""
        return _version(self._restorable(table))

    def restore(self, table: TableVersion, way_out: str) -> None:
        """Take a table back to its version, as a new one: nothing of its history is lost. Raises
        JobsError, with ``way_out``, if that version's files are gone."""
        there = self._restorable(table)
        try:
            there.restoreToVersion(table.version)
        except Exception as cause:
            if any(word in text_of(cause) for word in _GONE):
                raise JobsError(
                    f"job {self._job.name}: {table.name} has lost files of its version "
                    f"{table.version} (VACUUM), so it can't go back to it: {way_out}"
                ) from cause
            raise

    def _restorable(self, table: TableVersion) -> DeltaTable:
        name = table.name
        place = (
            TableLocation(path=None, table=name)
            if table.by_name
            else TableLocation(path=name, table=None)
        )
        if (there := _table(self._spark, place)) is None:
            raise JobsError(f"{name} is no Delta table any more: restore it by hand")
        return there

    def _wanted(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        rows = [(each.topic, each.partition, each.begin, each.end) for each in ranges]
        return self._spark.createDataFrame(rows, _RANGES)

    def _delete(self, name: str, wanted: DataFrame) -> int:
        by = _matches(self._columns(name))
        merge = self._tables[name].alias("t").merge(wanted.alias("r"), by)
        return int(merge.whenMatchedDelete().execute().collect()[0]["num_deleted_rows"])

    def _columns(self, name: str) -> tuple[str, ...]:
        fields = self._tables[name].toDF().schema.fields
        types = {field.name.lower(): field.dataType.typeName() for field in fields}
        return place_columns(self._job.name, name, types, self._by_topic)


@contextmanager
def open_rows(job: Job, by_topic: bool) -> Iterator[AppendedRows]:
    """Spark with the job's settings, for its tables. Raises JobsError for what Delta objects to."""
    with _spark(job) as spark:
        yield AppendedRows(spark, job, by_topic)


@contextmanager
def _spark(job: Job) -> Iterator[SparkSession]:
    log = job.directory / "offsets.log"
    with session(job.spark, name=f"{job.name}-offsets", log=log, redacted=job.redacted) as spark:
        try:
            yield spark
        except JobsError:
            raise
        except Exception as cause:
            told = job.redacted(cause_of(cause))
            raise JobsError(f"job {job.name}: Delta refuses: {told} (see {log})") from cause


def _table(spark: SparkSession, place: TableLocation) -> DeltaTable | None:
    from delta.tables import DeltaTable

    if place.table:
        return DeltaTable.forName(spark, place.table) if _is_table(spark, place.table) else None
    path = str(place.path)
    return DeltaTable.forPath(spark, path) if DeltaTable.isDeltaTable(spark, path) else None


def _is_table(spark: SparkSession, name: str) -> bool:
    return bool(spark.catalog.tableExists(name))


def _version(table: DeltaTable) -> int:
    return int(table.history(1).collect()[0]["version"])


def place_columns(
    job: str, place: str, types: Mapping[str, str], by_topic: bool
) -> tuple[str, ...]:
    """The columns by which rows are found; only what is sure to be the record's place will do.

    ``types`` are Spark's of the table's columns. A column ``topic`` that is not needed is none of
    ours: it may be a field of the records' values.
    """
    fits = {name for name in ("partition", "offset") if types.get(name) in _WHOLE}
    fits |= {"topic"} & {name for name, kind in types.items() if kind == "string"}
    needed = ("topic", "partition", "offset") if by_topic else ("partition", "offset")
    if missing := sorted({*needed} - fits):
        raise JobsError(
            f"job {job}: {place} keeps no column {' and '.join(missing)} of its records, so "
            "nobody can tell which of its rows would be there twice: delete them yourself and use "
            "kfetch offsets reset, which leaves the table alone"
        )
    return needed


def _matches(by: Sequence[str]) -> Column:
    from pyspark.sql import functions as f

    row, offset = f.col, f.col("t.offset")
    same = [row(f"t.{name}") == row(f"r.{name}") for name in by if name != "offset"]
    found = [*same, offset >= row("r.begin"), offset < row("r.end")]
    return reduce(lambda left, right: left & right, found)
