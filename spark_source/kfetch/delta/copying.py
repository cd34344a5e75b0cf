"""A copy of topics into Delta tables: what is decided without Spark, the stream, and the commits.

    copy = TableCopy(options, directory, zone="UTC")
    copy.look(merge_schema=False)                 # raises an error if it can't be written so
    files = copy.frame(spark, merge_schema=False) # a stream with a row for each file
    copy.write(batch, query_id, number, check)    # within foreachBatch

With ``dead_letters``, the records that can't be decoded go to a second table. They commit first, as
in jobs that write through Spark. If a run ends between both commits, the caller must replace them.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow.parquet as pq

from kfetch.delta.columns import TableColumn, all_columns, parse_column
from kfetch.delta.log import TableLog, WrittenFile
from kfetch.delta.partitions import parse_partitions
from kfetch.delta.places import hadoop_settings, plain_errors, readable
from kfetch.delta.plan import WritePlan, file_settings, plans_text
from kfetch.delta.rules import TableDescription
from kfetch.delta.source import PLANS, SETTINGS, FilesDataSource
from kfetch.delta.types import TableField, table_fields
from kfetch.errors import TableRefused
from kfetch.options.columns import DEAD_LETTER
from kfetch.spark.options import parse
from kfetch.spark.source import KfetchDataSource
from kfetch.storage.objects import ObjectPath
from kfetch.storage.open import StoredPath
from kfetch.storage.transfer import KEPT_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_LOCAL = re.compile(r"local(-cluster)?(\[(?(1)\d+,)(?P<cores>\d+|\*)[^]]*\])?")
"""``local[4]`` and ``local[*, 3]``; of a local cluster, ``local-cluster[2,4,1024]``."""

_LETTER_COLUMNS = {
    **{name: name for name in ("topic", "partition", "offset", "timestamp")},
    **{name: f"{DEAD_LETTER}.{name}" for name in ("error", "key", "value")},
}
"""The columns of a table of dead letters, and what they are."""


Select = Mapping[str, str] | None
"""The columns of a table, and what they are. None: all of the source."""


class Letter(NamedTuple):
    """A dead letter."""

    topic: str
    partition: int
    offset: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a micro-batch has added to the tables. Nothing, if they had it already."""

    rows: int = 0
    dead_letters: int = 0
    example: Letter | None = None
    """One of the dead letters."""


class TableCopy:
    """A copy of topics into a table."""

    def __init__(
        self,
        options: Mapping[str, str],
        directory: StoredPath,
        *,
        zone: str,
        settings: Mapping[str, str] | None = None,
        select: Select | Callable[[list[TableField]], Select] = None,
        partition_by: Mapping[str, str] | Sequence[str] = (),
        dead_letters: StoredPath | None = None,
    ) -> None:
        """``directory``: the table's, absolute. ``zone``: that of functions without one.

        ``settings``: those of Spark, by which the tables' stores were opened.
        ``dead_letters``: the directory of their table; the options must have
        ``deadLetters=column``. ``select`` may be a function of the source's columns, so that a
        schema registry is asked once. The others are those of ``delta.stream``. Raises OptionError
        and TableRefused, and what ``select`` raises.
        """
        self._options = options
        self._memory_bytes = parse(options).agent.memory_bytes
        in_store = isinstance(directory, ObjectPath) or isinstance(dead_letters, ObjectPath)
        self._settings = hadoop_settings(settings or {}) if in_store else {}
        self._schema = KfetchDataSource(dict(options)).schema()
        fields = table_fields(self._schema.jsonValue()["fields"])
        kept = [one for one in fields if not dead_letters or one["name"] != DEAD_LETTER]
        chosen = select(fields) if callable(select) else select
        columns = all_columns(kept) if chosen is None else _parsed(chosen, kept, zone)
        partitions = parse_partitions(partition_by, columns, kept, zone)
        self._rows = _CopiedTable(directory, columns, partitions, "good" if dead_letters else "all")
        self._letters = (
            _CopiedTable(dead_letters, _parsed(_LETTER_COLUMNS, fields, zone), (), "dead")
            if dead_letters
            else None
        )

    @property
    def fields(self) -> list[TableField]:
        """The columns of the rows, in the order of a new table."""
        return self._rows.fields

    @property
    def table_types(self) -> dict[str, Any]:
        """The types of the table's columns, as ``look`` saw them; none without a table."""
        return {one["name"]: one["type"] for one in self._rows.log.fields}

    def look(self, *, merge_schema: bool) -> None:
        """Raises TableRefused if a table can't be written so. Changes nothing, needs no Spark."""
        self._rows.log.look(merge_schema=merge_schema)
        if self._letters is not None:
            self._letters.log.look(merge_schema=False)

    def frame(self, spark: SparkSession, *, merge_schema: bool) -> DataFrame:
        """Open or create the tables. Returns the stream whose tasks write their files.

        Raises TableRefused.
        """
        schema, memory = self._schema.json(), self._memory_bytes
        writers = _task_slots(spark) * (2 if self._letters else 1)
        plans = [self._rows.open(schema, memory, writers, merge_schema=merge_schema)]
        if self._letters is not None:
            plans.append(self._letters.open(schema, memory, writers, merge_schema=False))
        spark.dataSource.register(FilesDataSource)
        options = {**self._options, PLANS: plans_text(plans)}
        if self._settings:
            options[SETTINGS] = json.dumps(self._settings)
        return spark.readStream.format(FilesDataSource.name()).options(**options).load()

    def write(self, files: DataFrame, query: str, batch: int, check: Callable[[], None]) -> Written:
        """Let tasks write the files of a micro-batch, and commit them.

        ``files``: the micro-batch of ``frame``. ``check`` raises an error if this process must not
        write any more. Raises TableRefused for a table that has changed, and if only the dead
        letters of this micro-batch are committed: the records may be decoded in another way now.
        """
        if self._rows.log.has_batch(query, batch):
            log.warning(
                "kfetch: the table has micro-batch %d already, so it is not written again. Its "
                "rows stay as they are, even if the options have changed since",
                batch,
            )
            return Written()
        if self._letters is not None and self._letters.log.has_batch(query, batch):
            raise _half_written(self._letters, batch)
        tables = [self._rows, *filter(None, [self._letters])]
        found: dict[str, list[WrittenFile]] = {str(table.directory): [] for table in tables}
        for row in files.collect():
            values = row.asDict() | {"partitions": json.loads(row.partitions)}
            found[values.pop("table")].append(WrittenFile(**values))
        return self._committed(found, query, batch, check)

    def _committed(
        self,
        found: Mapping[str, list[WrittenFile]],
        query: str,
        batch: int,
        check: Callable[[], None],
    ) -> Written:
        example = None
        letters = found[str(self._letters.directory)] if self._letters else []
        if self._letters and letters:
            example = _example(self._letters.directory / letters[0].path)
            if not self._letters.log.commit(query, batch, letters, check):
                raise _half_written(self._letters, batch)
        rows = found[str(self._rows.directory)]
        if rows and not self._rows.log.commit(query, batch, rows, check):
            return Written()
        count = sum(file.rows for file in letters)
        return Written(rows=sum(file.rows for file in rows), dead_letters=count, example=example)


class _CopiedTable:
    """One of the tables, and what goes there."""

    def __init__(
        self,
        directory: StoredPath,
        columns: Sequence[TableColumn],
        partitions: tuple[TableColumn, ...],
        records: Literal["all", "good", "dead"],
    ) -> None:
        self.directory = directory
        self._columns = columns
        self._partitions = partitions
        self._records = records
        self.log = TableLog(directory, self.fields, [one.name for one in partitions])

    @property
    def fields(self) -> list[TableField]:
        """The columns of a new table, in their order."""
        added = [one for one in self._partitions if one not in self._columns]
        return [one.field for one in (*self._columns, *added)]

    def open(
        self, source_schema: str, memory_bytes: int, writers: int, *, merge_schema: bool
    ) -> WritePlan:
        """Open or create the table. Returns the plan of its files. See ``file_settings``."""
        table = self.log.open(merge_schema=merge_schema)
        upload_bytes = KEPT_BYTES if isinstance(self.directory, ObjectPath) else 0
        return WritePlan(
            directory=str(self.directory),
            source_schema=source_schema,
            columns=self._file_columns(table),
            partitions=self._partitions,
            records=self._records,
            **file_settings(table.properties, memory_bytes, writers, upload_bytes),
        )

    def _file_columns(self, table: TableDescription) -> tuple[TableColumn, ...]:
        """Returns the columns of the files, in the table's order and with its names."""
        outside = {one.name.lower() for one in self._partitions}
        ours = {one.name.lower(): one for one in self._columns if one.name.lower() not in outside}
        names = [field["name"] for field in table.fields]
        return tuple(replace(ours[n.lower()], name=n) for n in names if n.lower() in ours)


def _task_slots(spark: SparkSession) -> int:
    """Returns how many tasks an executor runs at once; a guess if Spark does not tell.

    A standalone executor without ``spark.executor.cores`` takes all cores of its machine.
    """
    context = spark.sparkContext
    settings, master = context.getConf(), str(context.master)
    if local := _LOCAL.fullmatch(master):
        named = local["cores"] or "1"
        cores = context.defaultParallelism if named == "*" else int(named)
    elif text := settings.get("spark.executor.cores", ""):
        cores = int(text)
    else:
        cores = 1 if master.startswith(("yarn", "k8s")) else context.defaultParallelism
    return max(1, cores // int(settings.get("spark.task.cpus", "1") or 1))


def _parsed(
    select: Mapping[str, str], fields: Sequence[TableField], zone: str
) -> list[TableColumn]:
    return [
        parse_column(name, text, fields, zone, option="select") for name, text in select.items()
    ]


def _half_written(letters: _CopiedTable, batch: int) -> TableRefused:
    return TableRefused(
        f"the table {letters.directory} has the dead letters of micro-batch {batch}, and its rows "
        "are not written",
        action="start the query again through Spark, which replaces these dead letters",
    )


def _example(file: StoredPath) -> Letter:
    """Returns a file's first dead letter."""
    with plain_errors(file), pq.ParquetFile(readable(file)) as opened:
        names = [name for name in opened.schema_arrow.names if name.lower() in Letter._fields]
        (first,) = next(opened.iter_batches(1, columns=names)).to_pylist()
    values = {name.lower(): value for name, value in first.items()}
    return Letter(*(values[name] for name in Letter._fields))
