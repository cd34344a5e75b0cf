"""Fixtures of the tests with Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from integration.benchmarks.peer import connector_jars


@pytest.fixture
def talkative(spark: SparkSession) -> Iterator[None]:
    """Idle queries report their progress at once, not after ten seconds."""
    name = "spark.sql.streaming.noDataProgressEventInterval"
    spark.conf.set(name, "200")
    yield
    spark.conf.unset(name)


@pytest.fixture(scope="session")
def connector(spark: SparkSession) -> None:
    """Spark's own connector on the session's class path."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'").collect()
