"""What a table has, by readers that are not kfetch's and not Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable


def by_duckdb(table: Path, query: str) -> list[tuple[Any, ...]]:
    """Returns the rows of a query over ``files``, the files that the table's log names."""
    uris = DeltaTable(str(table)).file_uris()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        files = connection.read_parquet(uris, hive_partitioning=False)
        return files.query("files", query).fetchall()


def orphans(table: Path) -> list[str]:
    """Returns the Parquet files that the log does not name."""
    named = {Path(uri.removeprefix("file://")).name for uri in DeltaTable(str(table)).file_uris()}
    below = (path for path in table.rglob("*.parquet") if "_delta_log" not in path.parts)
    return sorted(path.name for path in below if path.name not in named)


def places(table: Path) -> list[tuple[int, int]]:
    """Returns (partition, offset) of all rows, sorted. What came twice is there twice."""
    if not DeltaTable(str(table)).file_uris():
        return []
    return by_duckdb(table, 'SELECT partition, "offset" FROM files ORDER BY ALL')
