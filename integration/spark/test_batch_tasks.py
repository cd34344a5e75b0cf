"""The tasks of batch reads: what changes after planning, repeated tasks, sessions."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.records import log_ends, numbered, producer, write
from integration.spark.batch_reads import plan, read, values
from integration.streams import wait_until
from kfetch import model
from kfetch.admin import agents
from kfetch.errors import PartitionGone, RecordsExpired
from kfetch.spark.batch import KfetchReader
from kfetch.spark.options import parse
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


def batch_reader(cluster: Cluster, topic: str, **options: str) -> KfetchReader:
    """Returns the reader that Spark gets, to plan and to read at different times."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    return KfetchReader(parse({**servers, "kfetch.agent": "inline", **options}, batch=True))


def offsets(reader: KfetchReader, partitions: list[Any]) -> list[int]:
    """Returns the offsets that the tasks read."""
    batches = (batch for partition in partitions for batch in reader.read(partition))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.connector_case(
    "KafkaDontFailOnDataLossSuite",
    "failOnDataLoss=false should not return duplicated records: batch v2",
)
def test_records_that_expire_after_planning(kafka: Cluster, topic: TopicFactory) -> None:
    """Records that are gone when a task reads are a loss, or are left out."""
    name = topic()
    write(kafka, name, numbered("v", 8))
    strict, lenient = batch_reader(kafka, name), batch_reader(kafka, name, failOnDataLoss="false")
    planned, planned_leniently = strict.partitions(), lenient.partitions()
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition(name, 0): 5})

    with pytest.raises(RecordsExpired, match="offsets 0 to 5 have expired"):
        offsets(strict, planned)
    assert [5, 6, 7] == offsets(lenient, planned_leniently)


@pytest.mark.long  # a partition is gone after ten seconds in which no broker has named it
def test_a_topic_that_is_deleted_after_planning(kafka: Cluster, topic: TopicFactory) -> None:
    """A task whose topic is gone fails with a sentence about it."""
    name = topic()
    write(kafka, name, ["v"])
    reader = batch_reader(kafka, name)
    planned = reader.partitions()
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.delete_topics([name])

    with pytest.raises(PartitionGone, match="no longer exists"):
        offsets(reader, planned)


def test_offsets_without_a_record_are_no_loss(kafka: Cluster, topic: TopicFactory) -> None:
    """A batch over offsets that have no record ends, and reports nothing as lost."""
    name = topic()
    with producer(kafka, transactional_id=name) as sender:
        sender.init_transactions()
        sender.begin_transaction()
        sender.send(name, b"aborted", partition=0).get(30)
        sender.abort_transaction()
    wait_until(lambda: log_ends(kafka, name)[0] == 2)
    committed = batch_reader(kafka, name, **{"kafka.isolation.level": "read_committed"})

    assert {0: (0, 2)} == plan(kafka, name)
    assert [] == offsets(committed, committed.partitions())


def test_agents_close_the_sessions_of_batches(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory
) -> None:
    """Many batch reads in one Spark leave no query open in the agent."""
    name = topic()
    write(kafka, name, ["v"])
    for _ in range(3):
        assert ["v"] == values(read(spark, kafka, subscribe=name))

    assert open_queries(name) > 0
    wait_until(lambda: open_queries(name) == 0, pause_s=0.2)


def open_queries(topic: str) -> int:
    """Returns how many queries of all agents have sessions for a topic."""
    return sum(topic in query.topics for status in agents.find() for query in status.queries)


@pytest.mark.connector_case(
    "KafkaDataConsumerSuite",
    "new KafkaDataConsumer instance in case of Task retry",
)
@pytest.mark.long
def test_a_repeated_task_reads_the_same_range(kafka: Cluster, topic: TopicFactory) -> None:
    """A task that starts again, or twice, reads the range that was planned."""
    name = topic()
    write(kafka, name, numbered("v", 100))
    reader = batch_reader(kafka, name)
    planned = reader.partitions()
    half = reader.read(planned[0])
    next(half)
    write(kafka, name, ["later"])

    again = offsets(reader, planned)
    half.close()

    assert list(range(100)) == again
    assert model.Split is type(planned[0].value)
