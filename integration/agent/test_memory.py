"""The agent's memory, as the operating system sees it, while a slow consumer drains a backlog."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.benchmarks.memory import Backlog
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

GIGABYTES = float(os.environ.get("KFETCH_DRAIN_GB", "5"))
SECONDS = float(os.environ.get("KFETCH_DRAIN_SECONDS", "75"))
"""How long the consumer wants to take."""
SLOTS = 2  # of the fixture ``spark``


@pytest.fixture(scope="module")
def backlog() -> Iterator[Backlog]:
    """A broker with the backlog. Its data is removed afterwards."""
    with tempfile.TemporaryDirectory() as name, Cluster.start(Path(name) / "kafka") as cluster:
        yield Backlog(cluster, GIGABYTES)


@pytest.mark.parametrize("budget", [64, 256], ids="{}m".format)
def test_memory_stays_within_the_budget(budget: int, backlog: Backlog, spark: SparkSession) -> None:
    """While two tasks slowly drain 5 GB, the agent takes at most 1.3 times its budget more than
    at rest after it has decoded."""
    held = backlog.held(spark, SLOTS, budget << 20, SECONDS)
    print(f"\n{held}")

    assert backlog.records == held.rows
    assert held.samples > SECONDS * 5
    assert held.of_budget <= 1.3
