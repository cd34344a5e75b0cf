"""Leaders that move all the time under load: nothing lost, nothing twice, no task fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.faults.test_broker import PARTITIONS, arriving, every
from integration.records import log_ends
from integration.streams import kfetch, running, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.mark.long
@pytest.mark.parametrize("seconds", [10, 60])
def test_moving_leaders_cost_nothing(
    spark: SparkSession,
    kafka_cluster: Callable[..., Cluster],
    topic: TopicFactory,
    tmp_path: Path,
    seconds: int,
) -> None:
    """A query over three nodes whose leaders change every two seconds delivers every record once,
    and no task fails."""
    cluster = kafka_cluster(nodes=3)
    name = topic(PARTITIONS, replicas=3, cluster=cluster)
    source = kfetch(spark, cluster, subscribe=name, startingOffsets="earliest").select(
        "partition", "offset"
    )
    failed = FailedTasks(spark)

    with running(source, tmp_path) as (query, delivered):
        with arriving(cluster, name):
            wait_until(lambda: delivered.count > 1000, query)
            moves = move(cluster, name, seconds)
            count_before = delivered.count
            wait_until(lambda: delivered.count > count_before + 1000, query)
        ends = log_ends(cluster, name)
        wait_until(lambda: delivered.count >= sum(ends.values()), query)

    assert moves >= seconds // 2 - 1
    assert every(ends) == delivered.places
    assert 0 == failed.count()


def move(cluster: Cluster, topic: str, seconds: float) -> int:
    """Rotate the preferred leaders, and elect them, every two seconds; how often."""
    moves, until = 0, time.monotonic() + seconds
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        while time.monotonic() < until:
            began = time.monotonic()
            moves += 1
            order = {p: [(p + moves + n) % 3 + 1 for n in range(3)] for p in range(PARTITIONS)}
            admin.alter_partition_reassignments(
                {TopicPartition(topic, p): replicas for p, replicas in order.items()}
            )
            admin.elect_leaders(0, {topic: list(order)}, raise_errors=False)
            time.sleep(max(0.0, began + 2.0 - time.monotonic()))
    return moves


class FailedTasks:
    """Counts failed tasks from now on, by the status tracker of Spark's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self._store = spark.sparkContext._jsc.sc().statusStore()
        self._before = self._failed()

    def count(self) -> int:
        """How many have failed."""
        return self._failed() - self._before

    def _failed(self) -> int:
        executors = self._store.executorList(False)
        return sum(executors.apply(i).failedTasks() for i in range(executors.size()))
