"""Hundreds of micro-batches leave no descriptor or thread behind, counted from outside."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.agent.processes import resources_at_rest
from integration.conftest import TopicFactory
from integration.records import producer
from integration.streams import kfetch
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

BATCHES = int(os.environ.get("KFETCH_BATCHES", "500"))
EARLY = BATCHES // 10
PARTITIONS = 16
LOOK_S = 3.0
FEW = 3  # what a thread holds that comes and goes: a look-up, a timer
PATIENCE_S = 400.0
WORKER, DRIVER = "pyspark.worker", "pyspark.sql.streaming.python_streaming_source_runner"


@pytest.mark.parametrize("agent", ["process", "inline"])
def test_micro_batches_leave_nothing_open(
    agent: str, spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """After 500 micro-batches the agent and Spark's Python processes have no more descriptors and
    threads than after 50, but for a few."""
    name = topic(PARTITIONS)
    options = {"kfetch.agent": agent}
    rows = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest", **options)
    here = psutil.Process()
    with steady_data(kafka, name):
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path))
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            wait_for_batch(query, EARLY)
            early = resources_at_rest(here, LOOK_S)
            wait_for_batch(query, BATCHES)
            late = resources_at_rest(here, LOOK_S)
        finally:
            query.stop()
    roles = {WORKER, DRIVER} | ({"agent"} if agent == "process" else set())
    for role in roles & late.keys():
        print(f"\n{agent}, {role}: {early.get(role)} at {EARLY}, {late[role]} at {BATCHES}")

    assert roles <= early.keys() & late.keys()
    for role in roles:
        assert late[role].descriptors <= early[role].descriptors + FEW, role
        assert late[role].threads <= early[role].threads + FEW, role


@contextmanager
def steady_data(cluster: Cluster, topic: str) -> Iterator[None]:
    """A producer that writes to every partition all the time."""
    over = threading.Event()

    def produce() -> None:
        with producer(cluster, linger_ms=5) as sender:
            while not over.wait(0.02):
                for partition in range(PARTITIONS):
                    sender.send(topic, value=b"x" * 100, partition=partition)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def wait_for_batch(query: StreamingQuery, number: int) -> None:
    """Wait until a micro-batch is done; a failed query raises its error."""
    deadline = time.monotonic() + PATIENCE_S
    while not query.lastProgress or query.lastProgress["batchId"] < number:
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            raise TimeoutError(f"batch {number} was not reached: {query.lastProgress}")
        time.sleep(0.1)
