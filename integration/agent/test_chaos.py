"""SIGKILL for random agents and workers: the query goes on, and the table is right."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from integration.agent.processes import owner_of
from integration.conftest import TopicFactory
from integration.faults.test_kill import PARTITIONS, Arrivals, Child, query
from integration.records import log_ends
from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

SECONDS = float(os.environ.get("KFETCH_CHAOS_SECONDS", "60"))
EVERY_S = 3.0
MORE = {
    # Two executor JVMs. A task may fail as often as it is killed: Spark would give up after four.
    "spark": {"spark.master": "local-cluster[2,2,1024]", "spark.task.maxFailures": "50"},
    "options": {
        "kfetch.agent": "process",
        "kfetch.rowsPerSplit": "1000",
        "startingOffsets": "earliest",
    },
}


@pytest.mark.timeout(600)
def test_killed_agents_and_workers_lose_nothing(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """While agents and workers are killed all the time, the query does not fail. No record is lost
    or repeated."""
    name = topic(PARTITIONS)
    arrivals = Arrivals(kafka, name)
    (tmp_path / "go").touch()
    with query(kafka, name, tmp_path, MORE, processingTime="0 seconds") as child:
        with arrivals.running():
            child.wait_for((tmp_path / "started").exists, "a task")
            killed = kill_at_random(child, SECONDS)
            arrivals.hurry()
        ends = log_ends(kafka, name)
        child.wait_for(lambda: landed(spark, tmp_path) >= sum(ends.values()), "the last record")
        still_running = child.process.poll() is None
    expected = [(p, offset) for p, end in sorted(ends.items()) for offset in range(end)]
    columns = table(spark, tmp_path).select("partition", "offset").toArrow().to_pydict()

    assert still_running
    assert len(killed) >= SECONDS / EVERY_S - 1
    assert "agent" in killed
    assert expected == sorted(zip(columns["partition"], columns["offset"], strict=True))


def kill_at_random(child: Child, seconds: float) -> list[str]:
    """Kill an agent or worker every three seconds, first an agent. Returns what they were."""
    chance = random.Random(7)
    killed: list[str] = []
    over = time.monotonic() + seconds
    while time.monotonic() < over and child.process.poll() is None:
        kind = "agent" if not killed else chance.choice(["agent", "worker"])
        victims = [p for p in psutil.process_iter() if KINDS[kind](p, child)]
        if victims:
            chance.choice(victims).kill()
            killed.append(kind)
            time.sleep(EVERY_S)  # the rhythm of the kills, not a wait for anything
    return killed


def is_worker(process: psutil.Process, child: Child) -> bool:
    """Whether it is one of Spark's Python workers below the query, or their daemon."""
    try:
        return "pyspark.daemon" in process.cmdline() and child.process in process.parents()
    except psutil.Error:
        return False


def is_agent(process: psutil.Process, child: Child) -> bool:
    """Whether it is an agent of one of the query's executors."""
    owner = owner_of(process)
    try:
        return owner is not None and child.process in psutil.Process(owner).parents()
    except psutil.Error:
        return False


KINDS: dict[str, Callable[[psutil.Process, Child], bool]] = {
    "agent": is_agent,
    "worker": is_worker,
}


def table(spark: SparkSession, directory: Path):  # type: ignore[no-untyped-def]
    """The table that the query writes."""
    return spark.read.format("delta").load(str(directory / "table"))


def landed(spark: SparkSession, directory: Path) -> int:
    """Returns how many rows the table has, after a pause, because counting takes work."""
    time.sleep(min(1.0, PATIENCE_S))
    return int(table(spark, directory).count())
