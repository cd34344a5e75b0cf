"""Filling a topic at the speed of Kafka's own producer, in its JVM (kafka-producer-perf-test)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kafka import KafkaAdminClient

from integration.benchmarks.stage import create
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.settings import KAFKA

_PERF_TEST = "org.apache.kafka.tools.ProducerPerformance"
BATCH_BYTES = 128 << 10


def fill(
    cluster: Cluster,
    topic: str,
    *,
    partitions: int,
    records: int,
    size: int,
    codec: str = "none",
    batch_bytes: int = BATCH_BYTES,
    payloads: Path | None = None,
) -> None:
    """Make a topic of ``records`` values, evenly spread.

    Each value is ``size`` random bytes, or a random line of the file ``payloads``.
    ``batch_bytes``: the producer's batch.size. With 0 it writes a batch for each record.
    """
    create(cluster, topic, partitions)
    _produce(cluster, topic, records, size, codec, batch_bytes, payloads)


def fill_skewed(
    cluster: Cluster,
    topic: str,
    *,
    partitions: int,
    records: int,
    size: int,
    codec: str = "none",
    batch_bytes: int = BATCH_BYTES,
) -> None:
    """As ``fill``, with 80 % of the records in the first fifth of the partitions.

    Kafka's producer spreads evenly over the partitions there are: the hot ones come first, the
    others when most has been written.
    """
    hot = max(1, partitions // 5)
    late = round(records * 0.2 * partitions / (partitions - hot))
    fill(
        cluster,
        topic,
        partitions=hot,
        records=records - late,
        size=size,
        codec=codec,
        batch_bytes=batch_bytes,
    )
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions({topic: partitions})
    _produce(cluster, topic, late, size, codec, batch_bytes)


def _produce(
    cluster: Cluster,
    topic: str,
    records: int,
    size: int,
    codec: str,
    batch_bytes: int,
    payloads: Path | None = None,
) -> None:
    values = ["--payload-file", str(payloads)] if payloads else ["--record-size", str(size)]
    command = [
        find_java(),
        "-cp",
        ":".join(map(str, jars(*KAFKA))),
        _PERF_TEST,
        *("--topic", topic),
        *("--num-records", str(records)),
        *values,
        *("--throughput", "-1"),
        "--producer-props",
        f"bootstrap.servers={cluster.bootstrap_servers}",
        "acks=1",
        f"batch.size={batch_bytes}",
        "linger.ms=20",
        f"compression.type={codec}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"filling {topic} failed: {done.stderr[-500:]}")
