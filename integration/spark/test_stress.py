"""Topics that come, grow, go and come back while a query over a pattern runs and restarts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.conftest import TopicFactory
from integration.records import producer
from integration.streams import Delivered, kfetch, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

STEPS = 50
RUNS = 5
NAMES = 6


class Topics:
    """Topics with one prefix, and the values that were written to each since it was created."""

    def __init__(self, cluster: Cluster, prefix: str, chance: random.Random) -> None:
        self._cluster = cluster
        self._admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        self._chance = chance
        self._names = [f"{prefix}-{number}" for number in range(NAMES)]
        self._partitions: dict[str, int] = {}
        self._written: dict[str, list[str]] = {}
        self.ever: set[str] = set()
        """Every value that was written."""

    @property
    def values(self) -> set[str]:
        """The values of the topics that exist now."""
        return {value for values in self._written.values() for value in values}

    def step(self, deletes: bool) -> None:
        """Create, delete or enlarge a topic, or do neither; then write."""
        name = self._chance.choice(self._names)
        if name not in self._partitions:
            self._create(name)
        elif deletes and self._chance.random() < 0.4 and len(self._partitions) > 1:
            self._delete(name)
        elif self._chance.random() < 0.4:
            self._partitions[name] += 2
            self._admin.create_partitions({name: self._partitions[name]})
        self._write()

    def close(self) -> None:
        """Close the client."""
        self._admin.close()

    def _create(self, name: str) -> None:
        asked = {"num_partitions": self._chance.randint(1, 4), "replication_factor": 1}
        self._admin.create_topics({name: asked}, wait_for_metadata=True)
        self._partitions[name] = asked["num_partitions"]
        self._written[name] = []

    def _delete(self, name: str) -> None:
        del self._partitions[name], self._written[name]
        self._admin.delete_topics([name])
        wait_until(lambda: name not in self._admin.list_topics(), what="the end of a topic")

    def _write(self) -> None:
        with producer(self._cluster, linger_ms=5) as sender:
            for name, partitions in self._partitions.items():
                for _ in range(self._chance.randint(0, 20)):
                    value = str(len(self.ever))
                    sender.send(name, value.encode(), partition=self._chance.randrange(partitions))
                    self._written[name].append(value)
                    self.ever.add(value)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase", "subscribing topic by pattern with topic deletions"
)
@pytest.mark.connector_case(
    "KafkaSourceStressSuite", "stress test with multiple topics and partitions"
)
@pytest.mark.connector_case(
    "KafkaSourceStressForDontFailOnDataLossSuite", "stress test for failOnDataLoss=false"
)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("deletes", [False, True])
def test_topics_come_and_go(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, deletes: bool
) -> None:
    """With failOnDataLoss=false a query over a pattern does not fail. Each record of a topic that
    stays comes once, and no record comes twice."""
    chance = random.Random(7)
    prefix = topic()
    source = kfetch(
        spark,
        kafka,
        subscribePattern=f"^{prefix}-.*",
        startingOffsets="earliest",
        failOnDataLoss="false",
        **{"kafka.metadata.max.age.ms": 500},
    ).select("partition", "offset", "value")
    # A micro-batch that runs again replaces its first run, as in a sink that knows batch ids.
    delivered = Delivered()

    with closing(Topics(kafka, prefix, chance)) as topics:
        for _ in range(RUNS):
            with running_into(delivered, source, tmp_path) as query:
                before = delivered.count
                for _ in range(STEPS // RUNS):
                    topics.step(deletes)
                    assert query.exception() is None, query.exception()
                wait_until(lambda count=before: delivered.count > count, query, "new records")
        with running_into(delivered, source, tmp_path) as query:
            wait_until(lambda: topics.values <= set(delivered.values), query, "the last records")

    assert len(delivered.values) == len(set(delivered.values))
    assert set(delivered.values) <= topics.ever


@contextmanager
def running_into(
    delivered: Delivered, frame: DataFrame, checkpoint: Path
) -> Iterator[StreamingQuery]:
    """A query that runs meanwhile, and goes on where the one before has stopped."""
    writer = frame.writeStream.foreachBatch(delivered.take)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()
