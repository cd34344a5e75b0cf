"""Writes the Parquet files of one task, and says what each of them has.

A file has a name of its own in the table's directory. No reader sees it before the driver's commit
names it. So what a failed attempt leaves is for VACUUM. A file is complete, and on the disk or in
the store, before its row goes to the driver.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfetch.delta.columns import projected
from kfetch.delta.dictionaries import dictionary_columns
from kfetch.delta.partitions import Values, directory, split
from kfetch.delta.places import NewFile, new_file, place_of
from kfetch.delta.plan import WritePlan
from kfetch.delta.statistics import (
    SeenValues,
    chosen_leaves,
    column_paths,
    file_statistics,
    footer_columns,
    leaves,
)
from kfetch.options.columns import DEAD_LETTER
from kfetch.storage.open import StoredPath

_FIELDS: list[pa.Field[Any]] = [
    pa.field("table", pa.string()),
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("rows", pa.int64()),
    pa.field("partitions", pa.string()),
    pa.field("statistics", pa.string()),
]
FILE_SCHEMA = pa.schema(_FIELDS)
"""Of the rows that Spark gets in place of records: one for each file."""

_OPEN_MAX = 64
"""The most open files of a task. For another, it completes that with the most rows in memory."""
_CHUNK_BYTES = 700
"""What a writer keeps for the footer, for each column of a row group. Measured: decision 117."""


def written_files(
    batches: Iterable[pa.RecordBatch], plans: Sequence[WritePlan], settings: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yields a row for each file that the records of a task fill, in each plan's table.

    ``settings``: those of Spark that the tables' places need. Raises OSError.
    """
    with ExitStack() as stack:
        tables = [
            stack.enter_context(TaskFiles(plan, place_of(plan.directory, settings)))
            for plan in plans
        ]
        for batch in batches:
            for files in tables:
                yield from files.add(batch)
        for files in tables:
            yield from files.complete()


class TaskFiles:
    """The open files of a task, one for each partition of the table."""

    def __init__(self, plan: WritePlan, place: StoredPath) -> None:
        self._plan, self._place = plan, place
        self._open: dict[Values, DataFile] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files that are not complete: the task has failed."""
        for file in self._open.values():
            file.discard()

    @property
    def pending_bytes(self) -> int:
        """The bytes of rows in memory."""
        return sum(file.pending_bytes for file in self._open.values())

    @property
    def _footer_bytes(self) -> int:
        return sum(file.footer_bytes for file in self._open.values())

    @property
    def uploading_bytes(self) -> int:
        """The bytes in memory that are on their way to a store, at most."""
        return sum(file.uploading_bytes for file in self._open.values())

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add a batch, whose memory may be reused behind the call. Yields completed files."""
        batch = _chosen(batch, self._plan.records)
        written = projected(batch, self._plan.columns)
        for values, rows in split(written, self._plan.partitions, batch):
            file = self._open.get(values)
            if file is None:
                yield from self._make_room()
                file = self._open[values] = DataFile(self._plan, self._place, values)
            file.add(rows)
            if self.pending_bytes >= self._plan.row_group_bytes:
                yield from self._write_largest()

    def complete(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all open files, and closes them."""
        for values in list(self._open):
            yield self._close(values)

    def _make_room(self) -> Iterator[pa.RecordBatch]:
        if len(self._open) >= _OPEN_MAX:
            yield self._close(self._largest())

    def _write_largest(self) -> Iterator[pa.RecordBatch]:
        values = self._largest()
        self._open[values].write_row_group()
        if self._open[values].size >= self._plan.file_bytes:
            yield self._close(values)
        elif self._footer_bytes >= self._plan.row_group_bytes:
            yield self._close(max(self._open, key=lambda key: self._open[key].footer_bytes))
        while self.uploading_bytes > self._plan.upload_bytes:
            yield self._close(max(self._open, key=lambda key: self._open[key].uploading_bytes))

    def _largest(self) -> Values:
        return max(self._open, key=lambda values: self._open[values].pending_bytes)

    def _close(self, values: Values) -> pa.RecordBatch:
        row = self._open[values].close()
        del self._open[values]
        return row


def _chosen(batch: pa.RecordBatch, records: str) -> pa.RecordBatch:
    """Returns all records of a batch, the good ones, or the dead letters."""
    if records == "all":
        return batch
    is_dead = pc.is_valid(batch.column(DEAD_LETTER))
    if not pc.any(is_dead).as_py():
        return batch if records == "good" else batch.slice(0, 0)
    return batch.filter(is_dead if records == "dead" else pc.invert(is_dead))


class DataFile:
    """One Parquet file, and the rows that wait for its next row group."""

    def __init__(self, plan: WritePlan, place: StoredPath, values: Values) -> None:
        self.pending_bytes = 0
        self.footer_bytes = 0
        """The memory that the footer takes so far."""
        self._plan, self._place = plan, place
        self._values = values
        self._path = f"{directory(plan.partitions, values)}part-{uuid.uuid4()}.{plan.codec}.parquet"
        self._pending: list[pa.RecordBatch] = []
        self._file: NewFile | None = None
        self._writer: Any = None

    @property
    def size(self) -> int:
        """The bytes that are written."""
        return int(self._file.sink.tell()) if self._file else 0

    @property
    def uploading_bytes(self) -> int:
        """The bytes in memory that are on their way to a store, at most."""
        return self._file.kept_bytes if self._file else 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add a copy of rows. It waits in memory."""
        copy, size = _copied(rows)
        self._pending.append(copy)
        self.pending_bytes += size

    def write_row_group(self) -> None:
        """Write what waits as one row group."""
        if self._writer is None:
            self._begin(self._pending[0].schema)
        for batch in self._pending:
            self._seen.add(batch)
        table = pa.Table.from_batches(self._pending)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._pending.clear()
        self.pending_bytes = 0
        self.footer_bytes += _CHUNK_BYTES * self._column_count

    def _begin(self, schema: pa.Schema) -> None:
        plan = self._plan
        self._column_count = len(column_paths(schema))
        self._leaves = chosen_leaves(leaves(schema), plan.statistics_columns, plan.statistics_paths)
        self._seen = SeenValues(self._leaves)
        self._file = new_file(self._place, self._path)
        self._writer = pq.ParquetWriter(
            self._file.sink,
            schema,
            compression=plan.codec,  # type: ignore[arg-type]
            store_schema=False,
            use_dictionary=dictionary_columns(self._pending[0]),  # type: ignore[arg-type]
            write_statistics=footer_columns(schema),
        )

    def close(self) -> pa.RecordBatch:
        """Complete the file. Returns its row of FILE_SCHEMA."""
        if self._pending:
            self.write_row_group()
        self._writer.close()
        size = self.size
        assert self._file is not None
        self._file.complete()
        metadata = self._writer.writer.metadata
        row = {
            "table": self._plan.directory,
            "path": self._path,
            "size": size,
            "rows": metadata.num_rows,
            "partitions": json.dumps(
                {
                    one.name: text
                    for one, text in zip(self._plan.partitions, self._values, strict=True)
                }
            ),
            "statistics": file_statistics(metadata, self._leaves, self._seen),
        }
        return pa.RecordBatch.from_pylist([row], FILE_SCHEMA)

    def discard(self) -> None:
        """Remove the file. Without rows it does not exist."""
        if self._file is not None:
            if self._writer is not None:
                self._writer.is_open = False  # else it writes a footer when it is collected
            self._file.discard()


def _copied(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """Returns a copy of a batch in memory of its own, and its bytes.

    The system's allocator gives such memory back at once. Arrow's own keeps it for later.
    """
    buffer = batch.serialize(memory_pool=pa.system_memory_pool())
    return pa.ipc.read_record_batch(buffer, batch.schema), buffer.size
