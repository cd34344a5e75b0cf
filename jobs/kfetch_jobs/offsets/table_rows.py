"""Deletes rows of Delta tables before a replay writes them again, and restores them for an undo.

The columns ``topic``, ``partition`` and ``offset`` identify a row, which the source provides. A
table needs no ``topic`` if it is known to have rows of one topic only. Delta keeps deleted rows, as
versions of the table, until a VACUUM.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from kfetch_jobs.checkpoints.backup import OffsetRange, TableVersion
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError
from kfetch_jobs.jvm.spark import cause_of, session, text_of
from kfetch_jobs.run.delta_sink import check_result
from kfetch_jobs.run.tables import existing_table, last_batches

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

_WHOLE = {"byte", "short", "integer", "long"}
_LOST_VERSION = ("Not all files from version", "DELTA_CANNOT_RESTORE_TABLE_VERSION")
"""Parts of Delta's error, which has a hundred paths, if a version's files or log are gone."""
_RANGES = "number INT, topic STRING, partition INT, begin BIGINT, `end` BIGINT"


class AppendedRows:
    """The existing tables to which a job appends, by path or name."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self._spark = spark
        self._job = job
        tables = {str(place): existing_table(spark, place) for place in job.appended_tables}
        self._tables = {name: table for name, table in tables.items() if table is not None}
        self._named = {str(location) for location in job.appended_tables if location.table}

    def check_result(self) -> None:
        """Raises ConfigError if the rows of the next run may not fit the table."""
        check_result(self._spark, self._job)

    def has_rows(self, name: str) -> bool:
        """Returns whether a table has a row."""
        return not self._tables[name].toDF().isEmpty()

    def count(
        self, ranges: Sequence[OffsetRange], topics: Collection[str], query: str
    ) -> dict[str, dict[OffsetRange, int]]:
        """Returns how many rows each table has of each range. Ranges without rows are left out.

        ``topics`` are those that the job's ``query`` has ever read. Raises JobsError if a table
        lacks the columns that identify its rows.
        """
        matches = {name: _matches(self._columns(name, topics, query)) for name in self._tables}
        return {name: self._counts(name, ranges, same) for name, same in matches.items()}

    def _counts(
        self, name: str, ranges: Sequence[OffsetRange], same: Column
    ) -> dict[OffsetRange, int]:
        offsets = self._range_rows(ranges).alias("r")
        pairs = self._tables[name].toDF().alias("t").join(offsets, same, "inner")
        counted = pairs.groupBy("r.number").count().collect()
        return {ranges[row["number"]]: int(row["count"]) for row in counted}

    def versions(self, names: Collection[str]) -> list[TableVersion]:
        """Returns the present versions of tables."""
        return [
            TableVersion(
                name=name,
                by_name=name in self._named,
                queries=last_batches(table),  # first: a later write then counts as one since
                version=_version(table),
            )
            for name, table in self._tables.items()
            if name in names
        ]

    def delete(
        self, ranges: Sequence[OffsetRange], topics: Collection[str], query: str, name: str
    ) -> int:
        """Delete the rows from a table that ``count`` counts. Returns how many it deleted."""
        offsets, same = self._range_rows(ranges).alias("r"), self._columns(name, topics, query)
        merge = self._tables[name].alias("t").merge(offsets, _matches(same))
        return int(merge.whenMatchedDelete().execute().collect()[0]["num_deleted_rows"])

    def version(self, table: TableVersion) -> int:
        """Returns the present version of a table. Raises JobsError if the table is gone."""
        return _version(self._restorable(table))

    def queries_of(self, table: TableVersion) -> Mapping[str, int]:
        """Returns the last micro-batch of each query that has written to a table by now."""
        return last_batches(self._restorable(table))

    def restore(self, table: TableVersion, way_out: str) -> None:
        """Restore a table's earlier version as a new one: the history stays.

        Raises JobsError if that version's files are gone; ``way_out`` tells what to do then.
        """
        restorable = self._restorable(table)
        try:
            restorable.restoreToVersion(table.version)
        except Exception as cause:
            if any(word in text_of(cause) for word in _LOST_VERSION):
                raise JobsError(
                    f"job {self._job.name}: {table.name} has lost files of its version "
                    f"{table.version} (VACUUM), so it can't go back to it: {way_out}"
                ) from cause
            raise

    def _restorable(self, table: TableVersion) -> DeltaTable:
        if (existing := existing_table(self._spark, table.location)) is None:
            raise JobsError(f"{table.name} is no Delta table any more: restore it by hand")
        return existing

    def _range_rows(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        rows = [(n, one.topic, one.partition, one.begin, one.end) for n, one in enumerate(ranges)]
        return self._spark.createDataFrame(rows, _RANGES)

    def _columns(self, name: str, topics: Collection[str], query: str) -> tuple[str, ...]:
        fields = self._tables[name].toDF().schema.fields
        types = {field.name.lower(): field.dataType.typeName() for field in fields}
        queries = last_batches(self._tables[name])
        by_topic = needs_topic(topics, queries, query)
        return place_columns(self._job.name, name, types, by_topic)


@contextmanager
def open_rows(job: Job) -> Iterator[AppendedRows]:
    """Yields the job's tables, in a Spark session with its settings. See ``AppendedRows``.

    Raises JobsError for errors of Delta.
    """
    log = job.directory / "offsets.log"
    name = f"{job.name}-offsets"
    with session(job.spark, name=name, log=log, code=job.code, redacted=job.redacted) as spark:
        try:
            yield AppendedRows(spark, job)
        except JobsError:
            raise
        except Exception as cause:
            reason = job.redacted(cause_of(cause))
            raise JobsError(f"job {job.name}: Delta refuses: {reason} (see {log})") from cause


def _version(table: DeltaTable) -> int:
    return int(table.history(1).collect()[0]["version"])


def needs_topic(topics: Collection[str], queries: Collection[str], query: str) -> bool:
    """Returns whether partition and offset do not suffice to identify the rows of a table.

    They suffice if ``query`` has read only one of ``topics``, and the table's log names no other
    one of ``queries``.
    """
    return len(topics) > 1 or set(queries) != {query}


def place_columns(
    job: str, table: str, types: Mapping[str, str], by_topic: bool
) -> tuple[str, ...]:
    """Returns the columns that identify rows. Raises JobsError if the table lacks one of them.

    ``types`` are the Spark types of the table's columns. Without ``by_topic``, a column ``topic``
    does not count: it may be a field of the records' values.
    """
    fits = {name for name in ("partition", "offset") if types.get(name) in _WHOLE}
    fits |= {"topic"} & {name for name, kind in types.items() if kind == "string"}
    needed = ("topic", "partition", "offset") if by_topic else ("partition", "offset")
    if missing := sorted({*needed} - fits):
        raise JobsError(
            f"job {job}: {table} keeps no column {' and '.join(missing)} of its records, so "
            "nobody can tell which of its rows would be there twice: delete them yourself and use "
            "kfetch offsets reset, which does not change the table"
        )
    return needed


def _matches(by: Sequence[str]) -> Column:
    from pyspark.sql import functions as f

    row, offset = f.col, f.col("t.offset")
    same = [row(f"t.{name}") == row(f"r.{name}") for name in by if name != "offset"]
    conditions = [*same, offset >= row("r.begin"), offset < row("r.end")]
    return reduce(lambda left, right: left & right, conditions)
