"""Tables for tests: written with kfetch's tasks and log, described, and read by others."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from kfetch.delta.columns import TableColumn, all_columns
from kfetch.delta.files import written_files
from kfetch.delta.log import TableLog, WrittenFile
from kfetch.delta.partitions import parse_partitions
from kfetch.delta.plan import WritePlan, file_settings
from kfetch.delta.types import TableField

MIB = 1 << 20


def field(
    name: str, kind: Any = "long", *, nullable: bool = True, **metadata: object
) -> TableField:
    """A column of a Delta schema."""
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def column(name: str, path: str = "", kind: Any = "string", **more: str) -> TableColumn:
    """A column of a table, from a path of the source; default: from the column of that name."""
    return TableColumn(name=name, type=kind, path=tuple((path or name).split(".")), **more)


def plan_of(
    directory: Path | str,
    columns: Iterable[str],
    partitions: Sequence[TableColumn] = (),
    **settings: object,
) -> WritePlan:
    """A plan for these columns, under the same names in the table."""
    outside = {one.name for one in partitions}
    asked = {
        "directory": str(directory),
        "source_schema": "",
        "columns": tuple(column(name) for name in columns if name not in outside),
        "partitions": tuple(partitions),
        **file_settings({}, 256 * MIB, 2),
        **settings,
    }
    return WritePlan(**asked)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process gets larger than so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files_of(batches: Iterable[pa.RecordBatch], plan: WritePlan) -> list[WrittenFile]:
    """Write the files of one task."""
    rows = [row for batch in written_files(batches, [plan], {}) for row in batch.to_pylist()]
    assert all(row.pop("table") == plan.directory for row in rows)
    return [WrittenFile(**row | {"partitions": json.loads(row["partitions"])}) for row in rows]


class Table:
    """A new table of these columns, and what a query does with it."""

    def __init__(
        self,
        directory: Path,
        fields: Sequence[TableField],
        partition_by: Any = (),
        zone: str = "UTC",
    ) -> None:
        self.directory = directory
        self.partitions = parse_partitions(partition_by, all_columns(fields), fields, zone)
        names = [one.name for one in self.partitions]
        computed = [one.field for one in self.partitions if one.function]
        self.log = TableLog(directory, [*fields, *computed], names)
        self.log.open(merge_schema=False)
        self.plan = plan_of(directory, [one["name"] for one in fields], self.partitions)

    def write(self, *batches: pa.RecordBatch) -> list[WrittenFile]:
        """Write files as a task does."""
        return files_of(batches, self.plan)

    def append(self, query: str, number: int, *batches: pa.RecordBatch) -> bool:
        """Write and commit a micro-batch."""
        return self.log.commit(query, number, self.write(*batches), lambda: None)

    def rows(self) -> list[dict[str, Any]]:
        """The rows that delta-rs reads."""
        return DeltaTable(str(self.directory)).to_pyarrow_table().to_pylist()

    def adds(self) -> list[dict[str, Any]]:
        """The files of the log, with parsed statistics."""
        added = [action["add"] for action in self.actions() if "add" in action]
        return [{**add, "stats": json.loads(add["stats"])} for add in added]

    def actions(self) -> list[dict[str, Any]]:
        """All actions of the log, the oldest first."""
        files = sorted((self.directory / "_delta_log").glob("*.json"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def by_duckdb(directory: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query over ``files``, all Parquet files below a directory, gives."""
    files = f"read_parquet('{directory}/**/*.parquet', hive_partitioning = false)"
    return _duckdb().sql(query.replace("files", files)).fetchall()


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """A connection for all tests of a process: a new one takes longer than a query."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection
