"""Spark's own ``from_protobuf`` as the judge of the Protobuf decoder.

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

from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.jvm.spark import delta_jars, session

__all__ = ["answers", "protobuf_session"]

PACKAGE = "org.apache.spark:spark-protobuf_2.13:4.2.0"
JARS = "KFETCH_SPARK_PROTOBUF"


def _jars() -> str:
    return os.environ.get(JARS) or ",".join(map(str, jars(PACKAGE, transitive=False)))


@contextmanager
def protobuf_session(directory: Path) -> Iterator[SparkSession]:
    """Yields a session with from_protobuf. Raises JobsError if its jar can't be had."""
    settings = {
        "spark.master": "local[2]",
        "spark.jars": ",".join([_jars(), *map(str, delta_jars())]),
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
    result: Any = frame(spark, spark.createDataFrame(table), descriptors, message, mode).toArrow()
    order = result.column("i").combine_chunks().to_numpy().argsort()
    structs = result.column("v").combine_chunks()
    if isinstance(structs, pa.ChunkedArray):
        structs = structs.chunk(0)
    return structs.take(pa.array(order))


def frame(spark: SparkSession, values: Any, descriptors: bytes, message: str, mode: str) -> Any:
    """Returns the frame of columns i and v, from columns i and value."""
    options = F.create_map(F.lit("mode"), F.lit(mode))
    arguments = F.col("value"), F.lit(message), F.lit(bytearray(descriptors)), options
    return values.select("i", F.call_function("from_protobuf", *arguments).alias("v"))
