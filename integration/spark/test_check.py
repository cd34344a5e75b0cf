"""``kfetch check`` asks the executors of a real Spark."""

from __future__ import annotations

from importlib import metadata

import pytest
from pyspark.sql import SparkSession

from kfetch.admin import platform

pytestmark = pytest.mark.integration


def test_executors_describe_themselves(spark: SparkSession) -> None:
    """The executor of a local Spark is one platform, with this Spark. An agent can run there."""
    here = platform.describe()
    (executor,) = platform.on_executors(spark, tasks=3)

    assert (here.host, here.cpus, here.versions) == (
        executor.host,
        executor.cpus,
        executor.versions,
    )
    assert metadata.version("pyspark") == executor.versions["pyspark"]
    assert ("process", ()) == (executor.agent, executor.problems)
