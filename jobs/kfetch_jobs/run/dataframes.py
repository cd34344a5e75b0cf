"""From a job's description to a DataFrame: its sources as views, their values decoded, the
transform over them. Spark checks names and types here, before anything is read.
"""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.jvm.spark import cause_of
from kfetch_jobs.run.spark_errors import UNDECODED, is_project_code

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kfetch_jobs.config.models import Decode

__all__ = ["ERROR", "apply_transform", "check_stateless", "source_frames"]

ERROR = "_error"
"""The column that tells why a record's value can't be decoded; null if it can."""

_CORRUPT = "_corrupt"


def source_frames(spark: SparkSession, job: Job) -> dict[str, DataFrame]:
    """The streams by the names of their views; with dead letters, they have the column ERROR."""
    found = {}
    for view, source in job.file.views().items():
        at = ("source",) if job.file.source else ("sources", view)
        with user_mistakes(job, *at):
            frame = spark.readStream.format("kfetch").options(**job.source_options(view)).load()
            if source.decode:
                fields = _parsed(job, source.decode.fields, *at, "decode", "fields")
                frame = _decoded(frame, source.decode, fields, keep=job.dead_letters is not None)
            found[view] = frame
    return found


def _parsed(job: Job, fields: str, *at: str) -> StructType:
    """Fields in Spark's DDL. ``from_json`` would parse them too, and tell less of what it finds."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(fields)
    except (PySparkException, Py4JJavaError) as cause:
        told = cause_of(cause).removesuffix(".")
    else:
        if isinstance(found, StructType):
            return found
        told = f"it is the type {found.simpleString()}"
    raise ConfigError(
        f"{job.document.file_line(at)}: {'.'.join(at)} cannot be parsed: {job.redacted(told)}: give "
        "each field a name and a type, as in event_id BIGINT, page STRING"
    )


def _decoded(frame: DataFrame, decode: Decode, fields: StructType, *, keep: bool) -> DataFrame:
    """Add the struct; a value that is not of the schema has an error, or raises it."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    options = {"columnNameOfCorruptRecord": _CORRUPT} | decode.options
    schema = StructType([*fields.fields, StructField(_CORRUPT, StringType())])
    parsed = f.from_json(f.col("value").cast("string"), schema, options)
    frame = frame.withColumn(decode.into, parsed)
    struct = f.col(decode.into)
    # from_json tells of a broken text by its corrupt column, and of an empty one by null alone.
    broken = f.col("value").isNotNull() & (struct.isNull() | struct[_CORRUPT].isNotNull())
    error = f.when(broken, f.lit(f"value is not JSON of the fields {decode.fields}"))
    if keep:
        frame = frame.withColumn(ERROR, error)
        return frame.withColumn(decode.into, struct.dropFields(_CORRUPT))
    return frame.withColumn(
        decode.into,
        f.when(broken, f.raise_error(_place(error))).otherwise(struct.dropFields(_CORRUPT)),
    )


def _place(error: Column) -> Column:
    from pyspark.sql import functions as f

    where = f.concat_ws("-", f.col("topic"), f.col("partition"))
    return f.concat(
        f.lit(UNDECODED), where, f.lit(", offset "), f.col("offset").cast("string"),
        f.lit(": "), error, f.lit(": give sink.deadLetters a table to go on without it"),
    )  # fmt: skip


def apply_transform(job: Job, frames: Mapping[str, DataFrame]) -> DataFrame:
    """What the job's transform makes of its sources; without one, the source as it is."""
    transform = job.file.transform
    if transform is None:
        return next(iter(frames.values()))
    with user_mistakes(job, "transform"):
        if transform.python:
            return _called(job, transform.python, frames)
        for view, frame in frames.items():
            frame.createOrReplaceTempView(view)
        return next(iter(frames.values())).sparkSession.sql(str(transform.sql))


def _called(job: Job, name: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    from pyspark.sql import DataFrame

    module, function = name.split(":")
    for directory in reversed(job.code):
        if str(directory) not in sys.path:
            sys.path.insert(0, str(directory))
    argument = next(iter(frames.values())) if job.file.source else dict(frames)
    found = getattr(importlib.import_module(module), function)(argument)
    if not isinstance(found, DataFrame):
        raise ConfigError(
            f"{job.document.file_line(('transform',))}: {name} returned {type(found).__name__}, "
            "but a transform returns a DataFrame"
        )
    return found


@contextmanager
def user_mistakes(job: Job, *at: str) -> Iterator[None]:
    """What Spark's analysis and the project's own code object to is the user's to mend, at a line.

    Other failures (a file system that is away) pass: the next attempt may succeed.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as cause:
        if not _is_mistake(cause, at):
            raise
        told = job.redacted(cause_of(cause))
        raise ConfigError(f"{job.document.file_line(at)}: {_where(job, cause)}{told}") from cause


def _is_mistake(cause: Exception, at: tuple[str, ...]) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

    if isinstance(cause, AnalysisException | IllegalArgumentException):
        return True
    # A plain Python error comes from the project's own function.
    return at == ("transform",) and not isinstance(cause, PySparkException | Py4JError | OSError)


def _where(job: Job, cause: BaseException) -> str:
    """The line of the project's code that raised, if one did."""
    places = [
        f"{frame.filename}:{frame.lineno}: {type(cause).__name__}: "
        for frame in traceback.extract_tb(cause.__traceback__)
        if is_project_code(frame.filename, job.code)
    ]
    return places[-1] if places else ""


_STATEFUL = re.compile(
    r"^[\s:+|~-]*(Aggregate|Deduplicate\w*|EventTimeWatermark|Join|GlobalLimit|Distinct"
    r"|FlatMapGroups\w*|TransformWithState\w*|Window)\b",
    re.MULTILINE,
)


def check_stateless(job: Job, frame: DataFrame) -> None:
    """With dead letters the transform runs over each micro-batch by itself: it can't keep state."""
    found = _STATEFUL.search(frame._jdf.queryExecution().analyzed().toString())
    if found:
        raise ConfigError(
            f"{job.document.file_line(('sink', 'deadLetters'))}: with deadLetters the transform sees "
            f"one micro-batch at a time, and this one needs more ({found[1]}): write the decoded "
            "records to a table first, or leave deadLetters out"
        )
