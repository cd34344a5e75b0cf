"""Spark's own ``from_protobuf`` gives the expected results for kfetch's Protobuf decoder.

It lies in the package spark-protobuf, which PySpark does not ship. The environment variable
KFETCH_SPARK_PROTOBUF names other jars, separated by commas.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.jvm.spark import delta_jars, session

__all__ = ["answers", "arrow_type", "decoded", "protobuf_session", "spark_protobuf"]

PACKAGE = "org.apache.spark:spark-protobuf_2.13:4.2.0"
JARS = "KFETCH_SPARK_PROTOBUF"


def spark_protobuf() -> list[Path]:
    """Returns the jars of spark-protobuf. Raises JobsError if they can't be had."""
    named = os.environ.get(JARS)
    return [Path(name) for name in named.split(",")] if named else jars(PACKAGE, transitive=False)


@contextmanager
def protobuf_session(directory: Path) -> Iterator[SparkSession]:
    """Yields a session with from_protobuf. Raises JobsError if its jar can't be had."""
    settings = {
        "spark.master": "local[2]",
        "spark.jars": ",".join(map(str, [*spark_protobuf(), *delta_jars()])),
        "spark.sql.session.timeZone": "UTC",
    }
    with session(settings, name="protobuf", log=directory / "log") as spark:
        yield spark


def answers(
    spark: SparkSession,
    descriptors: bytes,
    message: str,
    values: Sequence[bytes | None],
    *,
    mode: str = "PERMISSIVE",
) -> pa.Array[Any]:
    """Returns the structs that ``from_protobuf`` makes of values, in their order."""
    table = pa.table({"i": pa.array(range(len(values)), pa.int32()),
                      "value": pa.array(values, pa.binary())})  # fmt: skip
    structs = spark.createDataFrame(table).select("i", decoded(descriptors, message, mode))
    # toArrow refuses a null row around a field that is never null.
    nullable = _nullable(structs.schema["value"].dataType)
    result: Any = structs.select("i", F.col("value").cast(nullable).alias("v")).toArrow()
    order = result.column("i").combine_chunks().to_numpy().argsort()
    column = result.column("v").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    return column.take(pa.array(order))


def arrow_type(spark: SparkSession, descriptors: bytes, message: str) -> pa.DataType:
    """Returns the type of Spark's column as pyspark converts it for Python sources."""
    values = spark.createDataFrame([], "i INT, value BINARY")
    kind = values.select(decoded(descriptors, message)).schema["value"].dataType
    return to_arrow_type(kind, timezone="UTC")


def _nullable(kind: Any) -> Any:
    match kind:
        case StructType():
            return StructType([StructField(f.name, _nullable(f.dataType)) for f in kind])
        case ArrayType():
            return ArrayType(_nullable(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _nullable(kind.valueType))
    return kind


def decoded(descriptors: bytes, message: str, mode: str = "PERMISSIVE") -> Any:
    """Returns the struct of the column ``value``."""
    options = F.create_map(F.lit("mode"), F.lit(mode))
    arguments = F.col("value"), F.lit(message), F.lit(bytearray(descriptors)), options
    return F.call_function("from_protobuf", *arguments).alias("value")
