"""Writes a stream to Delta, each micro-batch exactly once.

append                  Delta's own streaming sink: the table records (query id, batch id)
merge, dead letters     foreachBatch, with the same record as txnAppId and txnVersion. Delta skips a
                        batch that is repeated after a crash, because the table has its record
straight                tasks write the files, foreachBatch commits them with the same record. So a
                        job may change between both ways at any micro-batch (``straight``)

A micro-batch may come again after a change of the decoding. ``letters_table`` then keeps each
record in one of the two tables.

With dead letters, a transform without state runs inside foreachBatch, so Spark reads Kafka once. A
transform with state runs before it. Its rows and the dead letters are one stream, for which Spark
reads Kafka twice.

foreachBatch asks the lease of the checkpoint before each commit: a run that slept must not write.
Delta's own sink has no such place. Its record of (query id, batch id) refuses what another run has
written meanwhile. Decision 116 has each case.

The query id belongs to the checkpoint. With a new checkpoint, batches count from 0 again, under
another id. So Delta never takes a new batch for an old one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.checkpoints.location import local_directory
from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError, SparkError
from kfetch_jobs.run.batch_counts import BatchCounts, Letters
from kfetch_jobs.run.dataframes import apply_transform, source_frames, user_mistakes
from kfetch_jobs.run.dead_letter_frames import (
    check_no_registry,
    dead_letters_among,
    good_records,
    places_of,
    rows_and_places,
    split_rows_and_places,
)
from kfetch_jobs.run.letters_table import log_letters, repeat_letters, write_letters
from kfetch_jobs.run.merging import merge
from kfetch_jobs.run.sink_columns import (
    check_bytes,
    check_named_columns,
    check_table_columns,
    check_table_types,
    refused_types,
)
from kfetch_jobs.run.stateless import stateful_operator, stream_leaves
from kfetch_jobs.run.straight import chosen, half_written, session_settings
from kfetch_jobs.run.tables import Check, append, may_evolve
from kfetch_jobs.run.used_columns import used_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from kfetch.delta.copying import TableCopy

log = logging.getLogger("kfetch_jobs.run")

_START_S = 600
"""A micro-batch may begin before ``start`` returns, and waits for that so many seconds."""


def start(
    spark: SparkSession, job: Job, check: Check, counts: BatchCounts | None = None
) -> StreamingQuery:
    """Starts the job's query. Raises ConfigError if Spark or Delta refuse its definition.

    ``check`` raises an error if this process must not write any more. ``counts`` gets what Spark
    does not count of each micro-batch.
    """
    _check_catalog(spark, job)
    counts = counts or BatchCounts()
    frames, result, columns = _frames(spark, job)
    check_named_columns(job, result.schema)
    copy = chosen(job, result, columns)
    if copy and half_written(job, session_settings(result)[0]):
        log.info("the rows of this run go through Spark, which replaces half-written dead letters")
    elif copy:
        check_bytes(job, copy.table_types, result.columns)
        check()
        evolves = may_evolve(spark, job)
        return _by_batch(
            job, copy.frame(spark, merge_schema=evolves), _copying(job, copy, counts, check)
        )
    with user_mistakes(job, "sink"):
        check_table_columns(spark, job, result.schema)
    if job.file.sink.deleteWhen is not None:
        with user_mistakes(job, "sink", "deleteWhen"):
            result.where(job.file.sink.deleteWhen)
    if job.dead_letters is not None:
        if not stateful_operator(result._jdf.queryExecution().analyzed()):
            parts = partial(_transformed, job)
            write = _with_letters(job, counts, check, parts, stateful=False)
            return _by_batch(job, frames["source"], write)
        check_no_registry(job)
        places = places_of(frames.values())
        both = rows_and_places(result, places if _may_repeat(job) else dead_letters_among(places))
        counts.reads = stream_leaves(both._jdf.queryExecution().analyzed())
        write = _with_letters(job, counts, check, split_rows_and_places, stateful=True)
        return _by_batch(job, both, write)
    if job.file.sink.mode == "merge":
        return _by_batch(job, result, partial(_write_rows, job, check=check))
    return _append_natively(job, result)


def check_result(spark: SparkSession, job: Job) -> None:
    """Raises ConfigError if the result of the transform may not fit the job's table.

    A move of offsets asks this before it deletes rows. It reads no record.
    """
    result = _frames(spark, job)[1].schema
    check_named_columns(job, result)
    with user_mistakes(job, "sink"):
        check_table_columns(spark, job, result)
        if job.target in job.appended_tables:
            check_table_types(spark, job, result)


def _may_repeat(job: Job) -> bool:
    """Whether an earlier run may have written parts of the first micro-batch.

    That is unknown, and so possible, if the checkpoint is remote.
    """
    path = local_directory(job)
    return path is None or read_checkpoint(path).pending


def _frames(spark: SparkSession, job: Job) -> tuple[dict[str, DataFrame], DataFrame, Sequence[str]]:
    """Returns the job's streams, the result of its transform, and the columns of the source.

    The streams have only the columns that the transform uses, if its SQL shows them. Without these
    columns, they are those of the job's options.
    """
    frames = source_frames(spark, job)
    result = apply_transform(job, good_records(frames))
    columns = used_columns(job, result)
    if columns:
        narrow = source_frames(spark, job, columns)
        with suppress(ConfigError):  # SELECT * EXCEPT (key) names a column that it does not use
            narrow_result = apply_transform(job, good_records(narrow))
            if narrow_result.schema == result.schema:
                log.info("the transform uses these columns of the source: %s", ", ".join(columns))
                return narrow, narrow_result, columns
    return frames, result, ()


def _check_catalog(spark: SparkSession, job: Job) -> None:
    """Raises ConfigError for a table's name in a catalog that ends with the process.

    The next run would not know the table.
    """
    lasting = spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "in-memory"
    lasting = lasting or not (spark.conf.get("spark.sql.catalog.spark_catalog", "") or "").endswith(
        ".DeltaCatalog"
    )
    for key, location in (("sink", job.target), ("deadLetters", job.dead_letters)):
        catalog, dot, _ = (location.table or "" if location else "").partition(".")
        named = dot and catalog != "spark_catalog"
        own = named and spark.conf.get(f"spark.sql.catalog.{catalog}", None) is not None
        if location and location.table and not (lasting or own):
            at = ("sink", "table") if key == "sink" else ("sink", key, "table")
            raise ConfigError(
                f"{job.document.file_line(at)}: {location.table} would be forgotten when the job "
                "ends, because Spark's catalog is in memory: name a path, or set a catalog that "
                "lasts (spark.sql.catalogImplementation: hive, or spark.sql.catalog.NAME)"
            )


def _writer(job: Job, frame: DataFrame) -> DataStreamWriter:
    return (
        frame.writeStream.option("checkpointLocation", job.checkpoint)
        .queryName(job.name)
        .trigger(**job.file.trigger.arguments())
    )


def _append_natively(job: Job, frame: DataFrame) -> StreamingQuery:
    sink = job.file.sink
    writer = _writer(job, frame).format("delta").options(**sink.options)
    if sink.partitionBy:
        writer = writer.partitionBy(*sink.partitionBy)
    with user_mistakes(job, "sink"):
        if job.target.table:
            return writer.toTable(job.target.table)
        return writer.start(job.target.path)


Write = Callable[["DataFrame", str, int], None]
"""Writes a micro-batch; gets the batch, the query's id and the batch's number."""


def _by_batch(job: Job, frame: DataFrame, write: Write) -> StreamingQuery:
    started = threading.Event()
    queries: list[StreamingQuery] = []

    def write_batch(batch: DataFrame, number: int) -> None:
        if not started.wait(_START_S):
            raise SparkError(f"the query of job {job.name} did not start within {_START_S} s")
        write(batch, str(queries[0].id), number)

    # Without aggregates, update is append. With them, a merge needs the changed rows.
    mode = "update" if job.file.sink.mode == "merge" else "append"
    with user_mistakes(job, "sink"):
        queries.append(_writer(job, frame).outputMode(mode).foreachBatch(write_batch).start())
    started.set()
    return queries[0]


def _copying(job: Job, copy: TableCopy, counts: BatchCounts, check: Check) -> Write:
    """Returns the writer of files that tasks have written."""

    def write(files: DataFrame, query: str, number: int) -> None:
        written = copy.write(files, query, number, check)
        counts.put_rows(number, written.rows + written.dead_letters)
        if written.dead_letters:
            letters = log_letters(job, number, written.dead_letters, written.example)
            counts.put(number, letters)

    return write


def _transformed(job: Job, batch: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Returns the rows and the places of a micro-batch of the source."""
    return apply_transform(job, good_records({"source": batch})), places_of([batch])


def _with_letters(
    job: Job,
    counts: BatchCounts,
    check: Check,
    parts: Callable[[DataFrame], tuple[DataFrame, DataFrame]],
    *,
    stateful: bool,
) -> Write:
    """Returns the writer of dead letters and rows. ``parts`` makes rows and places of a batch.

    The first micro-batch of a run may be a repeated one.
    """
    put_letters: Callable[..., Letters] = partial(repeat_letters, stateful=stateful)

    def write(batch: DataFrame, query: str, number: int) -> None:
        nonlocal put_letters
        with _persisted(batch):
            rows, places = parts(batch)
            counts.put(number, put_letters(job, places, query, number, check))
            put_letters = write_letters
            _write_rows(job, rows, query, number, check=check)

    return write


@contextmanager
def _persisted(batch: DataFrame) -> Iterator[None]:
    """Persists a micro-batch. Otherwise Spark reads Kafka once for each of the two tables."""
    batch.persist()
    try:
        yield
    finally:
        batch.unpersist()


def _write_rows(job: Job, rows: DataFrame, query: str, number: int, *, check: Check) -> None:
    sink = job.file.sink
    check()
    if sink.mode == "merge":
        merge(job, rows, query, number)
    else:
        with refused_types(job, rows):
            append(job.target, rows, query, number, sink.options, sink.partitionBy)
