"""Compares the columns of a job's result with those that its sink names, and with its table's.

Delta compares them too, with the first micro-batch. Its sentence names no column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kfetch_jobs.config import Job
from kfetch_jobs.config.decode import NO_BYTES, lacks_bytes
from kfetch_jobs.config.merge_order import order_columns
from kfetch_jobs.config.yamlfile import suggestion
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.run.tables import existing_table, may_evolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


def check_named_columns(job: Job, result: StructType) -> None:
    """Raises ConfigError if the sink names columns that the transform does not give."""
    sink, columns = job.file.sink, result.names
    known = {name.lower() for name in columns}
    named = {"keys": sink.keys, "latestBy": order_columns(job), "partitionBy": sink.partitionBy}
    wrong = [
        f"{job.document.file_line(('sink', key))}: sink.{key} names {name}, which the transform "
        f"does not give: {suggestion(name, columns)}"
        for key, names in named.items()
        for name in names
        if name.lower() not in known
    ]
    if wrong:
        raise ConfigError(*wrong)


def check_table_columns(spark: SparkSession, job: Job, result: StructType) -> None:
    """Raises ConfigError if the table lacks columns of the result, or a merge lacks the table's.

    With ``mergeSchema: true``, Delta adds the columns. With ``deleteWhen``, a merge names the
    columns that it writes.
    """
    sink = job.file.sink
    table = existing_table(spark, job.target)
    if table is None:
        return
    line, there = job.document.file_line(("transform",)), table.toDF().schema
    kinds = {field.name: field.dataType.simpleString() for field in there.fields}
    check_bytes(job, kinds, result.names)
    if may_evolve(spark, job):
        return
    if extra := sorted(added_columns(result, there)):
        raise ConfigError(
            f"{line}: {job.target} has no column {' and '.join(extra)}, which the transform gives: "
            "set sink.options.mergeSchema: true to add it to the table, or leave it out"
        )
    writes_all = sink.mode == "merge" and sink.deleteWhen is None
    if writes_all and (missing := sorted(added_columns(there, result))):
        raise ConfigError(
            f"{line}: the transform does not give {' and '.join(missing)}, a column of "
            f"{job.target}, and a merge writes all of them: select it, as NULL if need be, or set "
            "sink.options.mergeSchema: true, which leaves it as it is"
        )


def check_bytes(job: Job, table: Mapping[str, object], result: Collection[str]) -> None:
    """Raises ConfigError if a table has the bytes of values, which its job no longer gives.

    They must not become null in silence, as they would in a job with ``decode``. ``table``: the
    types of its columns. ``result``: the columns that the job gives.
    """
    had_bytes = table.get("value") == "binary" and "value" not in result
    if lacks_bytes(job.file.views().values()) and had_bytes:
        line = job.document.file_line(("transform",))
        raise ConfigError(f"{line}: {job.target} has the column value: {NO_BYTES}")


def check_table_types(spark: SparkSession, job: Job, result: StructType) -> None:
    """Raises ConfigError if a column of the result has another type in the table.

    Delta casts some types. Nobody else knows which, so only a run can find that out.
    """
    table = existing_table(spark, job.target)
    if table and (changed := sorted(changed_types(result, table.toDF().schema))):
        raise ConfigError(
            f"{job.document.file_line(('transform',))}: {job.target} has other types than the "
            f"transform gives: {', '.join(changed)}: cast the column to the table's type, or give "
            "it another name and set sink.options.mergeSchema: true"
        )


@contextmanager
def refused_types(job: Job, rows: DataFrame) -> Iterator[None]:
    """Raises ConfigError with the columns if Delta refuses their types. Its sentence has no types.

    Delta alone knows which types fit, so this explains a refusal, and refuses nothing itself.
    """
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as cause:
        if cause.getCondition() == "DELTA_FAILED_TO_MERGE_FIELDS":
            check_table_types(rows.sparkSession, job, rows.schema)
        raise


def changed_types(these: StructType, those: StructType, outer: str = "") -> Iterator[str]:
    """Yields the columns that have another type in the second schema, with both types.

    A field of a struct has its path, as ``a.b``. A null without a type fits any column.
    """
    from pyspark.sql.types import ArrayType, NullType, StructType

    known = {field.name.lower(): field.dataType for field in those.fields}
    for field in these.fields:
        ours, theirs = field.dataType, known.get(field.name.lower(), field.dataType)
        while isinstance(ours, ArrayType) and isinstance(theirs, ArrayType):
            ours, theirs = ours.elementType, theirs.elementType
        name = f"{outer}{field.name}"
        if isinstance(ours, StructType) and isinstance(theirs, StructType):
            yield from changed_types(ours, theirs, f"{name}.")
        elif not isinstance(ours, NullType) and _type_text(ours) != _type_text(theirs):
            yield f"{name} is {_type_text(theirs)} there, and {_type_text(ours)} here"


def _type_text(kind: DataType) -> str:
    return kind.simpleString().upper()


def added_columns(these: StructType, those: StructType) -> Iterator[str]:
    """Yields the columns and fields of structs that only the first schema has, as ``a.b``."""
    from pyspark.sql.types import StructType

    known = {field.name.lower(): field.dataType for field in those.fields}
    for field in these.fields:
        there = known.get(field.name.lower())
        if there is None:
            yield field.name
        elif isinstance(there, StructType) and isinstance(field.dataType, StructType):
            yield from (f"{field.name}.{name}" for name in added_columns(field.dataType, there))
