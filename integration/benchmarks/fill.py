"""Filling a topic at the speed of Kafka's own producer, in its JVM (kafka-producer-perf-test)."""

from __future__ import annotations

import subprocess

from jobs.kafka import Cluster
from jobs.kafka.java import find_java
from jobs.kafka.settings import KAFKA
from jobs.maven import jars

_PERF_TEST = "org.apache.kafka.tools.ProducerPerformance"


def fill(cluster: Cluster, topic: str, *, records: int, size: int, codec: str = "none") -> None:
    """Produce ``records`` values of ``size`` random bytes each, spread over the partitions."""
    command = [
        find_java(),
        "-cp",
        ":".join(map(str, jars(*KAFKA))),
        _PERF_TEST,
        *("--topic", topic),
        *("--num-records", str(records)),
        *("--record-size", str(size)),
        *("--throughput", "-1"),
        "--producer-props",
        f"bootstrap.servers={cluster.bootstrap_servers}",
        "acks=1",
        "batch.size=131072",
        "linger.ms=20",
        f"compression.type={codec}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"filling {topic} failed: {done.stderr[-500:]}")
