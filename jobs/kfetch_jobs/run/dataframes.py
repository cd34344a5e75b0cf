"""From a job's description to a DataFrame: its sources as views, decoding, the transform.

Spark checks names and types here, before it reads anything.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kfetch_jobs.config import Job
from kfetch_jobs.errors import ConfigError, SparkError
from kfetch_jobs.jvm.spark import cause_of, lost_jvm
from kfetch_jobs.run.broker_report import broker_report_path
from kfetch_jobs.run.dead_letter_frames import LETTER
from kfetch_jobs.run.outages import outage
from kfetch_jobs.run.spark_errors import UNDECODED, is_project_code

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kfetch_jobs.config.models import Decode

__all__ = ["apply_transform", "source_frames", "user_mistakes"]

_CORRUPT = "_corrupt"
_PARSED = "_parsed"
_BROKER_REPORT = "kfetch.brokerReport"


def source_frames(
    spark: SparkSession, job: Job, columns: Sequence[str] = ()
) -> dict[str, DataFrame]:
    """Return the streams by the names of their views.

    With dead letters, they have the column LETTER. ``columns``: those of the source; without them,
    all that the job's options say.
    """
    frames = {}
    for view, source in job.file.views().items():
        at = ("source",) if job.file.source else ("sources", view)
        with user_mistakes(job, *at):
            report = str(broker_report_path(job.directory, view))
            options = {_BROKER_REPORT: report} | job.source_options(view)
            options |= {"columns": ",".join(columns)} if columns else {}
            frame = spark.readStream.format("kfetch").options(**options).load()
            if source.decode:
                fields = _parsed(job, source.decode.fields, *at, "decode", "fields")
                frame = _decoded(frame, source.decode, fields, mark=job.dead_letters is not None)
            elif job.dead_letters is not None:
                frame = frame.withColumnRenamed("deadLetter", LETTER)
            frames[view] = frame
    return frames


def _parsed(job: Job, fields: str, *at: str) -> StructType:
    """Parse fields in Spark's DDL. ``from_json`` would parse them too, with poorer messages."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        parsed = StructType.fromDDL(fields)
    except (PySparkException, Py4JJavaError) as cause:
        reason = cause_of(cause).removesuffix(".")
    else:
        if isinstance(parsed, StructType):
            return parsed
        reason = f"it is the type {parsed.simpleString()}"
    raise ConfigError(
        f"{job.document.file_line(at)}: {'.'.join(at)} cannot be parsed: {job.redacted(reason)}: "
        "give each field a name and a type, as in event_id BIGINT, page STRING"
    )


def _decoded(frame: DataFrame, decode: Decode, fields: StructType, *, mark: bool) -> DataFrame:
    """Add the decoded struct. An invalid value raises; with ``mark``, LETTER has it."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    options = {"columnNameOfCorruptRecord": _CORRUPT} | decode.options
    schema = StructType([*fields.fields, StructField(_CORRUPT, StringType())])
    parsed = f.from_json(f.col("value").cast("string"), schema, options)
    frame = frame.withColumn(_PARSED, parsed)  # ``into`` may be value
    struct = f.col(_PARSED)
    # from_json marks a broken text in its corrupt column, and an empty text only by null.
    broken = f.col("value").isNotNull() & (struct.isNull() | struct[_CORRUPT].isNotNull())
    error = f.when(broken, f.lit(f"value is not JSON of the fields {decode.fields}"))
    fields_alone = struct.dropFields(_CORRUPT)
    if mark:
        # With keyFormat=string or valueFormat=string they are text, of any bytes.
        raw = [_bytes(frame, name).alias(name) for name in ("key", "value")]
        letter = f.struct(error.alias("error"), *raw)
        frame = frame.withColumn(LETTER, f.when(broken, letter))
    else:
        fields_alone = f.when(broken, f.raise_error(_sentence(error))).otherwise(fields_alone)
    return frame.withColumn(decode.into, fields_alone).drop(_PARSED)


def _bytes(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as f

    return (f.col(name) if name in frame.columns else f.lit(None)).cast("binary")


def _sentence(error: Column) -> Column:
    from pyspark.sql import functions as f

    partition = f.concat_ws("-", f.col("topic"), f.col("partition"))
    return f.concat(
        f.lit(UNDECODED), partition, f.lit(", offset "), f.col("offset").cast("string"),
        f.lit(": "), error, f.lit(": give sink.deadLetters a table to go on without it"),
    )  # fmt: skip


def apply_transform(job: Job, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return the result of the job's transform; without one, the source itself."""
    transform = job.file.transform
    if transform is None:
        return next(iter(frames.values()))
    with user_mistakes(job, "transform"):
        if transform.python:
            return _call_function(job, transform.python, frames)
        for view, frame in frames.items():
            frame.createOrReplaceTempView(view)
        return next(iter(frames.values())).sparkSession.sql(str(transform.sql))


def _call_function(job: Job, name: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    from pyspark.sql import DataFrame

    module, function = name.split(":")
    for directory in reversed(job.code):
        if str(directory) not in sys.path:
            sys.path.insert(0, str(directory))
    argument = next(iter(frames.values())) if job.file.source else dict(frames)
    result = getattr(importlib.import_module(module), function)(argument)
    if not isinstance(result, DataFrame):
        raise ConfigError(
            f"{job.document.file_line(('transform',))}: {name} returned {type(result).__name__}, "
            "but a transform returns a DataFrame"
        )
    return result


@contextmanager
def user_mistakes(job: Job, *at: str) -> Iterator[None]:
    """Turn errors of Spark's analysis and of the project's code into ConfigError, with a line.

    An outage of another system becomes SparkError, because the next run may succeed. Other errors
    pass, also that of a JVM that has died.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as cause:
        if lost_jvm(cause):
            raise
        line = job.document.file_line(at)
        if unavailable := outage(cause):
            raise SparkError(
                f"{line}: {_raised_at(job, cause)}{job.redacted(unavailable)}",
                action="another system is away: the next run tries it again",
            ) from cause
        if not _is_mistake(cause, at):
            raise
        reason = job.redacted(cause_of(cause))
        raise ConfigError(f"{line}: {_raised_at(job, cause)}{reason}") from cause


def _is_mistake(cause: Exception, at: tuple[str, ...]) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

    if isinstance(cause, AnalysisException | IllegalArgumentException):
        return True
    # Any other Python error comes from the project's own function.
    return at == ("transform",) and not isinstance(cause, PySparkException | Py4JError | OSError)


def _raised_at(job: Job, cause: BaseException) -> str:
    """The line of the project's code that raised; empty if other code did."""
    lines = [
        f"{frame.filename}:{frame.lineno}: {type(cause).__name__}: "
        for frame in traceback.extract_tb(cause.__traceback__)
        if is_project_code(frame.filename, job.code)
    ]
    return lines[-1] if lines else ""
