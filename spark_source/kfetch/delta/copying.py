"""A copy of topics into a Delta table: what is decided without Spark, the stream, and the commit.

copy = TableCopy(options, directory, zone="UTC")
copy.look(merge_schema=False)                 # raises an error if it can't be written so
files = copy.frame(spark, merge_schema=False) # a stream with a row for each file
copy.write(batch, query_id, number, check)    # within foreachBatch
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kfetch.delta.columns import TableColumn, all_columns, parse_column
from kfetch.delta.log import TableLog, WrittenFile
from kfetch.delta.partitions import parse_partitions
from kfetch.delta.plan import WritePlan, file_settings
from kfetch.delta.rules import TableDescription
from kfetch.delta.source import PLAN, FilesDataSource
from kfetch.delta.types import TableField, table_fields
from kfetch.spark.options import parse
from kfetch.spark.source import KfetchDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def source_fields(options: Mapping[str, str]) -> list[TableField]:
    """Returns the columns of ``format("kfetch")`` with these options, as those of a Delta table.

    A schema registry may be asked. Raises OptionError, and TableRefused for a type that Delta does
    not have.
    """
    return table_fields(KfetchDataSource(dict(options)).schema().jsonValue()["fields"])


class TableCopy:
    """A copy of topics into a table on a local disk."""

    def __init__(
        self,
        options: Mapping[str, str],
        directory: Path,
        *,
        zone: str,
        select: Mapping[str, str] | None = None,
        partition_by: Mapping[str, str] | Sequence[str] = (),
    ) -> None:
        """``directory``: the table's, absolute. ``zone``: that of functions without one.

        The others are those of ``delta.stream``. Raises OptionError and TableRefused.
        """
        self._options = options
        self._directory = directory
        self._memory_bytes = parse(options).agent.memory_bytes
        self._schema = KfetchDataSource(dict(options)).schema()
        fields = table_fields(self._schema.jsonValue()["fields"])
        self._columns = (
            all_columns(fields)
            if select is None
            else [parse_column(name, text, fields, zone) for name, text in select.items()]
        )
        self._partitions = parse_partitions(partition_by, self._columns, fields, zone)
        self._log = TableLog(directory, self.fields, [one.name for one in self._partitions])

    @property
    def fields(self) -> list[TableField]:
        """The columns that the copy writes, in the order of a new table."""
        added = [one for one in self._partitions if one not in self._columns]
        return [one.field for one in (*self._columns, *added)]

    def look(self, *, merge_schema: bool) -> None:
        """Raises TableRefused if the table can't be written so. Changes nothing, needs no Spark."""
        self._log.look(merge_schema=merge_schema)

    def frame(self, spark: SparkSession, *, merge_schema: bool) -> DataFrame:
        """Open or create the table. Returns the stream whose tasks write its files.

        Raises TableRefused.
        """
        table = self._log.open(merge_schema=merge_schema)
        plan = WritePlan(
            directory=str(self._directory),
            source_schema=self._schema.json(),
            columns=self._file_columns(table),
            partitions=self._partitions,
            **file_settings(table.properties, self._memory_bytes),
        )
        spark.dataSource.register(FilesDataSource)
        options = {**self._options, PLAN: plan.to_json()}
        return spark.readStream.format(FilesDataSource.name()).options(**options).load()

    def _file_columns(self, table: TableDescription) -> tuple[TableColumn, ...]:
        """Returns the columns of the files, in the table's order and with its names."""
        outside = {one.name.lower() for one in self._partitions}
        ours = {one.name.lower(): one for one in self._columns if one.name.lower() not in outside}
        names = [field["name"] for field in table.fields]
        return tuple(replace(ours[n.lower()], name=n) for n in names if n.lower() in ours)

    def write(self, files: DataFrame, query: str, batch: int, check: Callable[[], None]) -> int:
        """Let tasks write the files of a micro-batch, and commit them.

        ``files``: the micro-batch of ``frame``. ``check`` raises an error if this process must not
        write any more. Returns the number of records; 0 if the table has the micro-batch already.
        """
        if self._log.has_batch(query, batch):
            log.warning(
                "kfetch: the table has micro-batch %d already, so it is not written again. Its "
                "rows stay as they are, even if the options have changed since",
                batch,
            )
            return 0
        written = [
            WrittenFile(**row.asDict() | {"partitions": json.loads(row.partitions)})
            for row in files.collect()
        ]
        committed = bool(written) and self._log.commit(query, batch, written, check)
        return sum(file.rows for file in written) if committed else 0
