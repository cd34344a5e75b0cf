"""Batch reads in SQL: temporary views, tables, and schemas that are refused."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.records import write
from integration.spark.batch_reads import read, values
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


def test_sql_views(spark: SparkSession, kafka: Cluster, topic: TopicFactory) -> None:
    """Temporary views work, made in SQL or over a DataFrame."""
    name = topic()
    write(kafka, name, ["v"])
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW batch_in_sql USING kfetch OPTIONS "
        f"('kafka.bootstrap.servers' '{kafka.bootstrap_servers}', subscribe '{name}')"
    )
    read(spark, kafka, subscribe=name).createOrReplaceTempView("batch_of_frame")

    for view in ("batch_in_sql", "batch_of_frame"):
        assert ["v"] == values(spark.table(view))
        assert [("v",)] == spark.sql(f"SELECT CAST(value AS STRING) FROM {view}").collect()
        spark.catalog.dropTempView(view)


COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)


def test_sql_tables(spark: SparkSession, kafka: Cluster, topic: TopicFactory) -> None:
    """CREATE TABLE is refused with what works instead; WITH gives a table its options."""
    name = topic()
    write(kafka, name, ["v"])
    given = f"'kafka.bootstrap.servers' '{kafka.bootstrap_servers}', subscribe '{name}'"
    with_options = f"'kafka.bootstrap.servers'='{kafka.bootstrap_servers}', 'subscribe'='{name}'"
    advice = "use CREATE TEMPORARY VIEW name USING kfetch OPTIONS"

    session = spark.newSession()
    session.conf.unset("spark.sql.catalog.spark_catalog")  # Delta's can't read such tables

    with pytest.raises(AnalysisException, match=advice):
        session.sql(f"CREATE TABLE batch_table USING kfetch OPTIONS ({given})")
    # With columns, Spark makes a table without asking the source.
    session.sql(f"CREATE TABLE batch_columns ({COLUMNS}) USING kfetch OPTIONS ({given})")
    try:
        with pytest.raises(AnalysisException, match=advice):
            session.table("batch_columns").collect()
        found = session.sql(f"SELECT * FROM batch_columns WITH ({with_options})")
        assert ["v"] == values(found)
    finally:
        session.sql("DROP TABLE batch_columns")


def test_a_schema_with_another_column(spark: SparkSession, kafka: Cluster) -> None:
    """A batch with .schema(…) and a column that kfetch lacks fails with one sentence."""
    reader = spark.read.format("kfetch").schema("offset INT").option("subscribe", "t")
    with pytest.raises(AnalysisException) as refused:
        reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load().collect()

    assert "the schema has offset int, but the column is bigint" in str(refused.value)
