"""Filling a topic at the speed of Kafka's own producer, in its JVM (kafka-producer-perf-test)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TypedDict, Unpack

from kafka import KafkaAdminClient

from integration.benchmarks.stage import create
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.settings import KAFKA

_PERF_TEST = "org.apache.kafka.tools.ProducerPerformance"
BATCH_BYTES = 128 << 10


class Values(TypedDict, total=False):
    """The records' values, and the producer's settings."""

    size: int
    """Random bytes in each value."""
    payloads: Path | None
    """A file. Each value is a random line of it, whatever ``size`` says."""
    codec: str
    batch_bytes: int
    """The producer's batch.size. With 0 it writes a batch for each record."""


def fill(
    cluster: Cluster, topic: str, *, partitions: int, records: int, **values: Unpack[Values]
) -> None:
    """Make a topic of ``records`` values, evenly spread."""
    create(cluster, topic, partitions)
    _produce(cluster, topic, records, **values)


def fill_skewed(
    cluster: Cluster, topic: str, *, partitions: int, records: int, **values: Unpack[Values]
) -> None:
    """As ``fill``, with 80 % of the records in the first fifth of the partitions.

    Kafka's producer spreads evenly over the partitions there are: the hot ones come first, the
    others when most has been written.
    """
    hot = max(1, partitions // 5)
    late = round(records * 0.2 * partitions / (partitions - hot))
    fill(cluster, topic, partitions=hot, records=records - late, **values)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions({topic: partitions})
    _produce(cluster, topic, late, **values)


def _produce(cluster: Cluster, topic: str, records: int, **values: Unpack[Values]) -> None:
    payloads = values.get("payloads")
    content = (
        ["--payload-file", str(payloads)] if payloads else ["--record-size", str(values["size"])]
    )
    command = [
        find_java(),
        "-cp",
        ":".join(map(str, jars(*KAFKA))),
        _PERF_TEST,
        *("--topic", topic),
        *("--num-records", str(records)),
        *content,
        *("--throughput", "-1"),
        "--producer-props",
        f"bootstrap.servers={cluster.bootstrap_servers}",
        "acks=1",
        f"batch.size={values.get('batch_bytes', BATCH_BYTES)}",
        "linger.ms=20",
        f"compression.type={values.get('codec', 'none')}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"filling {topic} failed: {done.stderr[-500:]}")
