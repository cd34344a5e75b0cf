"""Batch reads for tests: through Spark, and as the driver plans them."""

from __future__ import annotations

from contextlib import closing

from pyspark.sql import DataFrame, SparkSession

from kfetch.spark.options import parse
from kfetch.watch.batch_planning import plan_batch
from kfetch.watch.lookups import OffsetLookup
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


def plan(cluster: Cluster, topic: str, **options: str) -> dict[int, tuple[int, int]]:
    """Returns (start, end) of each partition's range, as the driver plans it."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    parsed = parse({**servers, **options}, batch=True)
    with closing(OffsetLookup(parsed)) as lookup:
        splits = plan_batch(parsed, lookup)
    return {i.tp.partition: (i.start, i.end) for split in splits for i in split.ranges}
