"""A streaming table of clicks, and the number of clicks of each partition."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table
def clicks() -> DataFrame:
    """A run adds what has come to the topic ``clicks`` since the last one."""
    return (
        spark.readStream.format("kfetch")
        .option("kafka.bootstrap.servers", spark.conf.get("example.kafka"))
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("cast(value as string) as value", "partition", "offset")
    )


@dp.materialized_view
def clicks_by_partition() -> DataFrame:
    """The whole table is counted again in each run."""
    return spark.read.table("clicks").groupBy("partition").count()
