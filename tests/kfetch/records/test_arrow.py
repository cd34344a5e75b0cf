"""The Arrow schema of the columns."""

from __future__ import annotations

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kfetch import records

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
SPARK = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)


def test_schema_is_sparks() -> None:
    """The Arrow schema is what pyspark makes of the Kafka source's schema."""

    assert to_arrow_schema(SPARK, timezone="UTC").equals(records.SCHEMA, check_metadata=True)


def test_schema_with_headers_is_sparks() -> None:
    """The same with ``includeHeaders=true``."""
    spark = StructType([*SPARK, StructField("headers", HEADERS)])

    expected = to_arrow_schema(spark, timezone="UTC")
    schema = records.schema_of(records.Columns(headers=True))
    assert expected.equals(schema, check_metadata=True)
