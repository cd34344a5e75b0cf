"""Spark's own ``from_avro`` as the judge of the Avro decoder.

The jar spark-avro has only the expression. The classes that decide, ``AvroDeserializer`` and
``SchemaConverters``, are Spark's own. The jar is that of 4.1, or of 4.0 beside Spark 4.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from kfetch_jobs.jvm.maven import jars

__all__ = ["avro_answers", "from_avro_sql", "prepare", "spark_avro"]

_RELEASE = "4.0.2" if metadata.version("pyspark").startswith("4.0.") else "4.1.1"
_SPARK_AVRO = f"org.apache.spark:spark-avro_2.13:{_RELEASE}"


def prepare(spark: SparkSession) -> None:
    """Adds spark-avro to a session. Call it before Spark decodes any Avro.

    Java's library would reserve memory for as many elements as a damaged record claims to have, and
    the JVM would run out of it. So it gets limits.
    """
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    for name in ("collectionItems", "bytes", "string"):
        system.setProperty(f"org.apache.avro.limits.{name}.maxLength", "1000000")
    for jar in spark_avro():
        spark.sql(f"ADD JAR '{jar}'")


def spark_avro() -> list[Path]:
    """Returns the jar of spark-avro. Raises JobsError if it can't be had."""
    return jars(_SPARK_AVRO, transitive=False)


def avro_answers(
    spark: SparkSession,
    writer: Any,
    reader: Any,
    documents: Sequence[bytes | None],
    options: Mapping[str, str] | None = None,
) -> pa.Array[Any]:
    """Returns the column that ``from_avro`` makes of records, in their order.

    ``reader`` may be None. The mode is PERMISSIVE if ``options`` have no other.
    """
    call = from_avro_sql(writer, reader, options)
    table = pa.table({"i": pa.array(range(len(documents)), pa.int32()),
                      "value": pa.array(documents, pa.binary())})  # fmt: skip
    result: Any = spark.createDataFrame(table).selectExpr("i", f"{call} AS v").toArrow()
    order = result.column("i").combine_chunks().to_numpy().argsort()
    values = result.column("v").combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0)
    return values.take(pa.array(order))


def from_avro_sql(writer: Any, reader: Any, options: Mapping[str, str] | None = None) -> str:
    """Returns the call in SQL for the column ``value``. See ``avro_answers``."""
    given = {"mode": "PERMISSIVE"} | ({} if reader is None else {"avroSchema": json.dumps(reader)})
    pairs = ", ".join(f"{_text(k)}, {_text(v)}" for k, v in (given | dict(options or {})).items())
    return f"from_avro(value, {_text(json.dumps(writer))}, map({pairs}))"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
