"""Jobs whose tasks write the table's files themselves, and Spark never sees their rows.

``sink.write`` decides. A job that only copies can be written so. ``way`` needs no Spark, and names
the clause if rows must go through Spark. Before a run writes, Spark's own plan of the SQL must have
the same columns, and no operators and functions that kfetch does not have.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kfetch.errors import NotBuilt, OptionError, TableRefused
from kfetch.storage.open import stored_path
from kfetch_jobs.checkpoints.checkpoint import read_checkpoint
from kfetch_jobs.checkpoints.location import checkpoint_path
from kfetch_jobs.config import Job
from kfetch_jobs.config.selection import NeedsSpark
from kfetch_jobs.config.write_way import AUTO_MERGE, may_evolve, needs_spark, refusal, selection
from kfetch_jobs.errors import ConfigError, JobsError
from kfetch_jobs.run.dataframes import PERMISSION, run_options
from kfetch_jobs.run.stateless import items, nodes
from kfetch_jobs.run.used_columns import is_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kfetch.delta.copying import TableCopy

log = logging.getLogger("kfetch_jobs.run")

_OPERATORS = {"Project", "SubqueryAlias"}
_EXPRESSIONS = {
    "Alias", "AttributeReference", "GetStructField",
    "Cast", "to_date", "Hour", "Month", "Year",
}  # fmt: skip
"""Spark's names of what kfetch does."""


def way(
    job: Job, settings: Mapping[str, str], zone: str = "UTC", columns: Sequence[str] = ()
) -> TableCopy | str:
    """Returns the copy that a job is, or the clause that sends its rows through Spark.

    It reads the log of the table, and asks a schema registry if the job has one. ``settings`` are
    those of Spark, ``zone`` is that of Spark's session. ``columns``: those of the source that the
    job uses; without them, all that the job's options say.

    Raises ConfigError for a job that asks to be written straight and can't be, and JobsError if
    the table can't be read.
    """
    if job.file.sink.write == "spark":
        return "sink.write"
    clause = needs_spark(job, settings)
    if not clause:
        try:
            with _unread_tables(job):
                return _copy(job, settings, zone, columns)
        except NeedsSpark as found:
            clause = str(found)
        except (NotBuilt, OptionError, TableRefused) as cause:
            clause = job.user_sentence(cause.what)
    return through_spark(job, clause)


def through_spark(job: Job, clause: str) -> str:
    """Returns the clause. Raises ConfigError if the job asks for the other way."""
    if job.file.sink.write == "straight":
        raise ConfigError(refusal(job, clause))
    return clause


def _copy(job: Job, settings: Mapping[str, str], zone: str, columns: Sequence[str]) -> TableCopy:
    from kfetch.delta.copying import TableCopy

    (view,) = job.file.views()
    options = run_options(job, view, zone, columns, settings.get(PERMISSION, ""))
    place = stored_path(str(job.target.path), settings)
    assert place is not None
    letters = stored_path(str(job.dead_letters.path), settings) if job.dead_letters else None
    copy = TableCopy(
        options,
        place,
        zone=zone,
        settings=settings,
        select=partial(selection, job),
        partition_by=job.file.sink.partitionBy,
        dead_letters=letters,
    )
    copy.look(merge_schema=may_evolve(job, settings))
    return copy


def chosen(job: Job, result: DataFrame, columns: Sequence[str]) -> TableCopy | None:
    """Returns the copy that a run is; None if its rows go through Spark.

    ``result``: what Spark's SQL makes of the source. ``columns``: see ``way``. Raises ConfigError.
    """
    settings, zone = session_settings(result)
    copy = way(job, settings, zone, columns)
    if not isinstance(copy, str) and (clause := _difference(job, result, copy)):
        copy = through_spark(job, clause)
    if isinstance(copy, str):
        if job.file.sink.write == "auto":
            log.info("job %s: its rows go through Spark: %s", job.name, copy)
        return None
    return copy


def needs_delta(job: Job) -> bool:
    """Returns whether Spark needs Delta for a run. A job that asks to be written straight does not.

    Only half-written dead letters need it there. Raises JobsError: see ``half_written``.
    """
    return job.file.sink.write != "straight" or half_written(job, job.spark)


def half_written(job: Job, settings: Mapping[str, str]) -> bool:
    """Returns whether a run has committed the dead letters of a micro-batch, and not its rows.

    Only a run through Spark can replace these dead letters. ``settings``: Spark's. The job must be
    one that can be written straight. Raises JobsError if a table or the checkpoint can't be read.
    """
    from kfetch.delta.log import last_batch

    if job.dead_letters is None or (path := checkpoint_path(job)) is None:
        return False
    checkpoint = read_checkpoint(path)
    if not checkpoint.pending or checkpoint.planned is None:
        return False
    places = (stored_path(str(one.path), settings) for one in (job.dead_letters, job.target))
    with _unread_tables(job):
        letters, rows = (last_batch(place, checkpoint.query) for place in places if place)
    return letters >= checkpoint.planned.number > rows


@contextmanager
def _unread_tables(job: Job) -> Iterator[None]:
    """Turn errors of a store into JobsError."""
    try:
        yield
    except OSError as cause:
        raise JobsError(
            f"job {job.name}: kfetch can't read the table {cause.filename}: {cause.strerror}"
        ) from None


def session_settings(frame: DataFrame) -> tuple[dict[str, str], str]:
    """Returns the settings of a frame's session, and its time zone."""
    spark = frame.sparkSession
    settings = dict(spark.sparkContext.getConf().getAll())
    settings |= {AUTO_MERGE: spark.conf.get(AUTO_MERGE, None) or "false"}
    settings |= {PERMISSION: spark.conf.get(PERMISSION, None) or ""}
    return settings, spark.conf.get("spark.sql.session.timeZone") or "UTC"


def _difference(job: Job, result: DataFrame, copy: TableCopy) -> str:
    """Returns what Spark's plan has and kfetch has not; empty if both do the same."""
    from kfetch.delta.types import table_fields

    if table_fields(result.schema.jsonValue()["fields"]) != copy.fields:
        return "the transform has other columns for Spark than for kfetch"
    if job.file.transform is None:
        return ""
    (view,) = job.file.views()
    plan = result._jdf.queryExecution().analyzed()
    for node in nodes(plan, ends_at=lambda one: is_source(one, view)):
        if node.nodeName() not in _OPERATORS:
            return f"{node.nodeName()} in Spark's plan"
        for expression in items(node.expressions()):
            if unknown := set(_names(expression)) - _EXPRESSIONS:
                return f"{min(unknown)} in Spark's plan"
    return ""


def _names(expression: Any) -> list[str]:
    """Returns the names of an expression and of those in it, as Spark's classes have them."""
    inside = [name for child in items(expression.children()) for name in _names(child)]
    return [str(expression.nodeName()), *inside]
