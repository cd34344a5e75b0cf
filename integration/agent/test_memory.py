"""The agent's memory, as the operating system sees it, while a slow consumer drains a backlog."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from integration.agent.processes import agents_of, gone, private_bytes
from integration.benchmarks.fill import fill
from integration.streams import kfetch, wait_until
from jobs import agents
from jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

RECORDS = int(float(os.environ.get("KFETCH_DRAIN_GB", "5")) * 1e9 / 1024)
SECONDS = float(os.environ.get("KFETCH_DRAIN_SECONDS", "75"))
"""How long the consumer wants to take."""
TASKS = 2  # the task slots of the fixture ``spark``
SAMPLE_S = 0.1
PATIENCE_S = 5 * SECONDS
MIB = 1 << 20


@pytest.fixture(scope="module")
def backlog() -> Iterator[Cluster]:
    """A broker with the topics ``backlog`` and ``little``; its data is gone afterwards."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Cluster.start(Path(directory) / "kafka") as cluster,
    ):
        fill(cluster, "little", partitions=16, records=1000, size=1024)
        fill(cluster, "backlog", partitions=16, records=RECORDS, size=1024)
        yield cluster


@pytest.mark.parametrize("budget", [64, 256], ids="{}m".format)
def test_memory_stays_within_the_budget(
    budget: int, backlog: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    """While 5 GB are drained slowly, the agent holds at most 1.3 times its budget more than one
    that has decoded and rests."""
    leave(agents_of(psutil.Process()))  # its budget would be the larger of the two
    drain(spark, backlog, "little", budget, tmp_path, seconds=0)
    (agent,) = agents_of(psutil.Process())
    idle = private_bytes(agent)
    began = time.monotonic()
    with sampled(agent) as samples:
        rows = drain(spark, backlog, "backlog", budget, tmp_path, seconds=SECONDS)
    took = time.monotonic() - began
    status = next(status for status in agents.find() if status.pid == agent.pid)
    peak = max(samples)
    print(
        f"\nbudget {budget} MiB: agent idle {idle / MIB:.0f} MiB, peak {peak / MIB:.0f} MiB, "
        f"more {(peak - idle) / MIB:.0f} MiB = {(peak - idle) / MIB / budget:.2f} of the budget; "
        f"charged at most {status.memory_peak / MIB:.0f} MiB; at the end "
        f"{private_bytes(agent) / MIB:.0f} MiB; {rows:,} rows in {took:.0f} s, "
        f"{len(samples)} samples"
    )

    assert RECORDS == rows
    assert len(samples) > SECONDS / SAMPLE_S / 2
    assert peak - idle <= 1.3 * budget * MIB


def leave(old: list[psutil.Process]) -> None:
    """Let agents end; the next read starts another."""
    for agent in old:
        agent.terminate()
    wait_until(lambda: gone(old), what="agents to leave")


def drain(
    spark: SparkSession, cluster: Cluster, topic: str, budget: int, directory: Path, seconds: float
) -> int:
    """Read a topic to its end, in about so many seconds; how many rows it had."""
    options = {"kfetch.agent": "process", "kfetch.agent.memory": f"{budget}m"}
    rows = kfetch(spark, cluster, subscribe=topic, startingOffsets="earliest", **options)
    query = (
        rows.mapInArrow(slowly(seconds * TASKS / RECORDS), rows.schema)
        .writeStream.format("noop")
        .option("checkpointLocation", str(directory / topic))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def slowly(row_s: float):  # type: ignore[no-untyped-def]
    """A function for ``mapInArrow`` that takes its time for each row and keeps none."""

    def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * row_s)
        yield from ()

    return consume


@contextmanager
def sampled(process: psutil.Process) -> Iterator[list[int]]:
    """What a process holds meanwhile, in bytes, every tenth of a second."""
    samples: list[int] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_S):
            samples.append(private_bytes(process))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()
