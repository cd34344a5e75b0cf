"""Spark's own ``from_json`` as the judge of the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kfetch.formats.columns.ddl import parse_schema

__all__ = ["CORRUPT", "answers"]

CORRUPT = "_corrupt_record"


def answers(
    spark: SparkSession,
    schema: str,
    documents: Sequence[bytes | None],
    *,
    zone: str = "UTC",
    options: dict[str, str] | None = None,
) -> pa.Array[Any]:
    """Returns the structs that ``from_json`` makes of documents, in their order."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    parse_schema(schema)
    table = pa.table({"i": pa.array(range(len(documents)), pa.int32()),
                      "value": pa.array(documents, pa.binary())})  # fmt: skip
    frame = spark.createDataFrame(table)
    column = F.from_json(F.col("value").cast("string"), schema, options or {})
    result: Any = frame.select("i", column.alias("v")).toArrow()
    order = result.column("i").combine_chunks().to_numpy().argsort()
    structs = result.column("v").combine_chunks()
    if isinstance(structs, pa.ChunkedArray):
        structs = structs.chunk(0)
    return structs.take(pa.array(order))
