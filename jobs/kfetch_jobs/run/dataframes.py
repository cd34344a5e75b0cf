"""From a job's description to a DataFrame: its sources as views, and the transform.

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
from kfetch_jobs.config.decode import NO_BYTES, lacks_bytes
from kfetch_jobs.config.field_types import Options
from kfetch_jobs.errors import ConfigError, SparkError
from kfetch_jobs.jvm.spark import cause_of, lost_jvm
from kfetch_jobs.progress.reports import broker_report_path
from kfetch_jobs.run.dead_letter_frames import LETTER
from kfetch_jobs.run.outages import outage
from kfetch_jobs.run.spark_errors import is_project_code

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BROKER_REPORT = "kfetch.brokerReport"
_PERMISSION = "kfetch.planPermission"
PERMISSION = "spark.kfetch.planPermission"
"""The session's setting with the socket that each source asks before it plans a micro-batch."""


def source_frames(
    spark: SparkSession, job: Job, columns: Sequence[str] = ()
) -> dict[str, DataFrame]:
    """Returns the streams by the names of their views.

    With dead letters, they have the column LETTER. ``columns``: those of the source; without them,
    all that the job's options say.
    """
    frames, zone = {}, spark.conf.get("spark.sql.session.timeZone")
    for view, source in job.file.views().items():
        at = ("source",) if job.file.source else ("sources", view)
        with user_mistakes(job, *at):
            options = run_options(job, view, zone, columns, spark.conf.get(PERMISSION, "") or "")
            frame = spark.readStream.format("kfetch").options(**options).load()
            if job.dead_letters is not None:
                frame = frame.withColumnRenamed("deadLetter", LETTER)
            frames[view] = _named(frame, source.decode.into) if source.decode else frame
    return frames


def run_options(
    job: Job, view: str, zone: str | None, columns: Sequence[str] = (), permission: str = ""
) -> Options:
    """Returns the options of a source in a run. See ``source_frames``; ``zone``: the session's.

    ``permission``: the session's setting PERMISSION.
    """
    report = str(broker_report_path(job.directory, view))
    options = {_BROKER_REPORT: report} | job.source_options(view, zone)
    if permission:
        options[_PERMISSION] = permission
    return options | ({"columns": ",".join(columns)} if columns else {})


def _named(frame: DataFrame, into: str) -> DataFrame:
    """Give the struct the name that ``decode`` says. A new name makes it the last column."""
    from pyspark.sql import functions as f

    named = frame.withColumn(into, f.col("value"))
    return named if into.lower() == "value" else named.drop("value")


def apply_transform(job: Job, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Returns the result of the job's transform; without one, the source itself."""
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
        if "`value`" in reason and lacks_bytes(job.file.views().values()):
            reason += f": {NO_BYTES}"
        raise ConfigError(f"{line}: {_raised_at(job, cause)}{reason}") from cause


def _is_mistake(cause: Exception, at: tuple[str, ...]) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import (
        AnalysisException,
        IllegalArgumentException,
        PySparkAttributeError,
        PySparkException,
    )

    if isinstance(cause, AnalysisException | IllegalArgumentException | PySparkAttributeError):
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
