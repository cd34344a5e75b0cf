"""Fixtures of the tests with Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def talkative(spark: SparkSession) -> Iterator[None]:
    """Idle queries report their progress at once, not after ten seconds."""
    name = "spark.sql.streaming.noDataProgressEventInterval"
    spark.conf.set(name, "200")
    yield
    spark.conf.unset(name)
