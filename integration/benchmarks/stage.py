"""What every comparison needs: a Spark session with both sources, a topic, runs by turns."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from integration.benchmarks.peer import connector_jars
from integration.sessions import checkpoints_in_files
from kfetch_jobs.kafka import Cluster

T = TypeVar("T")

SOURCES = ("kfetch", "kafka")

LOW_LATENCY = {
    "spark.python.unix.domain.socket.enabled": "true",
    **checkpoints_in_files(),
}
"""What docs/how-to/tune.md advises for short micro-batches with the checkpoint on a local disk."""


def broker_cpu_seconds(cluster: Cluster) -> float:
    """Returns the user and system time of the running brokers since their start, in seconds."""
    times = [psutil.Process(node.pid).cpu_times() for node in cluster.nodes if node.running]
    return sum(one.user + one.system for one in times)


def session(
    cores: int, settings: Mapping[str, str] | None = None, jars: Sequence[Path] = ()
) -> Any:
    """A Spark session with the connector and ``jars``; ``settings`` have the last word."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.jars", ",".join(map(str, [*connector_jars(), *jars])))
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def stream(spark: Any, cluster: Cluster, topic: str, source: str, **options: str) -> Any:
    """A stream of the topic through one of the sources; in names an underscore stands for a dot."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    return (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", topic)
        .options(**given)
        .load()
    )


def create(cluster: Cluster, topic: str, partitions: int) -> None:
    """A new topic whose partitions have their leaders."""
    from kafka import KafkaAdminClient

    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        asked = {topic: {"num_partitions": partitions, "replication_factor": 1}}
        admin.create_topics(asked, wait_for_metadata=True)


def alternated(runs: int, once: Callable[[str], T]) -> Iterator[tuple[str, T]]:
    """Each source and what ``once`` found of it, by turns; told as it goes."""
    for number in range(runs):
        for source in SOURCES:
            found = once(source)
            print(f"run {number + 1}: {found}", file=sys.stderr, flush=True)
            yield source, found


def medians(values: Iterator[tuple[str, float]]) -> dict[str, float]:
    """The median of each source's values, and kfetch's in units of the connector's as ``ratio``."""
    found = list(values)
    by = {name: statistics.median(v for n, v in found if n == name) for name in SOURCES}
    return by | {"ratio": by["kfetch"] / by["kafka"]}


def settings(texts: list[str]) -> dict[str, str]:
    """``name=value`` arguments as Spark settings."""
    return dict(text.split("=", 1) for text in texts)
