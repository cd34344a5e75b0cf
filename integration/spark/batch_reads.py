"""Batch reads through Spark, for tests."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from kfetch_jobs.kafka import Cluster


def read(
    spark: SparkSession, cluster: Cluster, source: str = "kfetch", **options: object
) -> DataFrame:
    """Load a batch. In the names of options two underscores stand for a dot."""
    texts = {name.replace("__", "."): str(value) for name, value in options.items()}
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return spark.read.format(source).options(**servers | texts).load()


def values(frame: DataFrame) -> list[str]:
    """Returns all values as text, sorted."""
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())
