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


RATIO = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A broker. Its data is removed afterwards."""
    with tempfile.TemporaryDirectory() as name, Cluster.start(Path(name) / "kafka") as running:
        yield running


@pytest.fixture(scope="module")
def backlog(cluster: Cluster) -> Backlog:
    """A backlog of random values."""
    return Backlog(cluster, GIGABYTES)


@pytest.fixture(scope="module")
def compressed(cluster: Cluster, backlog: Backlog) -> Backlog:
    """A backlog of values that a good codec shrinks 20 times."""
    return Backlog(cluster, GIGABYTES, RATIO)


@pytest.mark.parametrize("budget", [64, 256], ids="{}m".format)
def test_memory_stays_within_the_budget(budget: int, backlog: Backlog, spark: SparkSession) -> None:
    """While two tasks slowly drain 5 GB, agent and workers take at most 1.3 times the budget more
    than at rest after they have decoded. A worker maps two segments with memory at most."""
    held = backlog.held(spark, SLOTS, budget << 20, SECONDS)
    print(f"\n{held}")

    assert backlog.records == held.rows
    assert held.samples > SECONDS * 2
    assert held.of_budget <= 1.3
    assert held.segments <= 2


@pytest.mark.parametrize("codec", ["zstd", "gzip", "lz4", "snappy"])
@pytest.mark.parametrize("budget", [64, 256], ids="{}m".format)
def test_compressed_topics_stay_within_the_budget(
    budget: int, codec: str, compressed: Backlog, spark: SparkSession
) -> None:
    """The same holds for compressed topics, at the ratio that each codec reaches."""
    held = compressed.held(spark, SLOTS, budget << 20, SECONDS / 5, codec)
    print(f"\n{held}")

    assert compressed.records == held.rows
    assert held.of_budget <= 1.3
    assert held.segments <= 2


@pytest.fixture(scope="module", params=["wide", "sparse"])
def structs(cluster: Cluster, request: pytest.FixtureRequest) -> Backlog:
    """A backlog of JSON that arrives as structs of 40 fields."""
    return Backlog(cluster, GIGABYTES / 5, documents=request.param)


@pytest.mark.parametrize("budget", [64, 256], ids="{}m".format)
def test_structs_stay_within_the_budget(budget: int, structs: Backlog, spark: SparkSession) -> None:
    """The same holds while JSON becomes structs, which may be many times as large as the JSON."""
    held = structs.held(spark, SLOTS, budget << 20, SECONDS / 5)
    print(f"\n{held}")

    assert structs.records == held.rows
    assert held.of_budget <= 1.3
    assert held.segments <= 2
