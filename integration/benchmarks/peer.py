"""Spark's own Kafka connector, as the peer of kfetch: the one of the installed Spark."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from kfetch_jobs.jvm.maven import jars

# Spark's minor version: its newest connector at hand, and the libraries that its POM names. The
# registry this was built with lacks some releases. So the newest one of the minor version stands
# here, or of the one before.
_RELEASES = {
    "4.0": ("4.0.4", "3.9.1", "2.12.0"),
    "4.1": ("4.1.3", "3.9.1", "2.12.1"),
    "4.2": ("4.2.0", "3.9.2", "2.12.1"),
    "4.3": ("4.2.0", "3.9.2", "2.12.1"),
}
# The connector needs it for delegation tokens only, and its releases are not all at hand.
_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1"


def connector_version(spark: str | None = None) -> str:
    """Returns the connector's version for a version of Spark. Default: the installed one."""
    return _release(spark)[0]


def connector_jars() -> list[Path]:
    """The connector's jars without what Spark has itself (lz4, slf4j, snappy, zstd)."""
    connector, client, pool = _release(None)
    return jars(
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}",
        _TOKENS,
        f"org.apache.kafka:kafka-clients:{client}",
        f"org.apache.commons:commons-pool2:{pool}",
        transitive=False,
    )


def _release(spark: str | None) -> tuple[str, str, str]:
    minor = ".".join((spark or metadata.version("pyspark")).split(".")[:2])
    return _RELEASES.get(minor, _RELEASES["4.2"])
