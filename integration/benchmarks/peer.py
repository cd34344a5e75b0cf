"""Spark's own Kafka connector, resolved as the peer that every benchmark runs beside kfetch."""

from __future__ import annotations

from pathlib import Path

from kfetch_jobs.jvm.maven import jars

# The connector is named without its own dependencies: token-provider is used for delegation tokens
# only, and the registry this was built with lacks its 4.2.0.
COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)


def connector_jars() -> list[Path]:
    """The connector's jars without what Spark has itself (lz4, slf4j, snappy, zstd)."""
    return jars(*COORDINATES, transitive=False)
