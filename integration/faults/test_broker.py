"""Brokers that restart, die and forget sessions: no silent loss, and no record twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.nodes import start_node
from integration.records import log_ends, numbered, producer, write
from integration.streams import drain, kfetch, running, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

PARTITIONS = 6


def test_a_broker_restart_loses_and_repeats_nothing(
    spark: SparkSession,
    kafka_cluster: Callable[..., Cluster],
    topic: TopicFactory,
    tmp_path: Path,
) -> None:
    """A query over a broker that is killed and comes back, its sessions forgotten, delivers every
    record once. Meanwhile its report names the broker."""
    cluster = kafka_cluster(nodes=1)
    name = topic(PARTITIONS, cluster=cluster)
    report = tmp_path / "brokers.json"
    source = patient(spark, cluster, name, **{"kfetch.brokerReport": str(report)})

    with running(source, tmp_path) as (query, delivered):
        with arriving(cluster, name):
            wait_until(lambda: delivered.count > 1000, query)
            assert [] == away(report)
            cluster.nodes[0].kill()
            wait_until(lambda: away(report), query)
            start_node(cluster, 1)
            count_before = delivered.count
            wait_until(lambda: delivered.count > count_before + 1000, query)
            wait_until(lambda: not away(report), query)
        ends = log_ends(cluster, name)
        wait_until(lambda: delivered.count >= sum(ends.values()), query)

    assert every(ends) == delivered.places


@pytest.mark.long
def test_a_moved_leader_loses_and_repeats_nothing(
    spark: SparkSession,
    kafka_cluster: Callable[..., Cluster],
    topic: TopicFactory,
    tmp_path: Path,
) -> None:
    """A query over three nodes, of which one is killed and comes back later, delivers every record
    once."""
    cluster = kafka_cluster(nodes=3)
    name = topic(PARTITIONS, replicas=3, cluster=cluster, min_insync_replicas=1)
    source = patient(spark, cluster, name)

    with running(source, tmp_path) as (query, delivered):
        with arriving(cluster, name):
            wait_until(lambda: delivered.count > 1000, query)
            cluster.nodes[1].kill()
            before = delivered.furthest
            wait_until(lambda: grown(before, delivered.furthest), query)
            start_node(cluster, 2)
            before = delivered.furthest
            wait_until(lambda: grown(before, delivered.furthest), query)
        ends = log_ends(cluster, name)
        wait_until(lambda: delivered.count >= sum(ends.values()), query)

    assert every(ends) == delivered.places


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "subscribe topic by pattern with topic recreation between batches",
)
def test_a_recreated_topic_is_an_error(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A topic that was deleted and created again fails the query; with failOnDataLoss=false it is
    read from offset 0."""
    name = topic()
    write(kafka, name, numbered("old", 5))
    drain(kfetch(spark, kafka, subscribe=name, startingOffsets="earliest"), tmp_path)
    recreate(kafka, name)
    write(kafka, name, numbered("new", 7))

    message = failure(kfetch(spark, kafka, subscribe=name), tmp_path)
    lenient = drain(kfetch(spark, kafka, subscribe=name, failOnDataLoss="false"), tmp_path)
    again = drain(kfetch(spark, kafka, subscribe=name), tmp_path)

    assert f"TopicRecreated: topic {name} was deleted and created again (its id was " in message
    assert f"Offset 5 of {name}-0 belongs to the old topic. Set failOnDataLoss=false" in message
    assert numbered("new", 7) == lenient.values
    assert [] == again.rows


@pytest.mark.long
def test_a_recreated_topic_that_is_shorter_is_noticed(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A new topic that ends below the old position is read from offset 0 too."""
    name = topic()
    write(kafka, name, numbered("old", 5))
    drain(kfetch(spark, kafka, subscribe=name, startingOffsets="earliest"), tmp_path)
    recreate(kafka, name)
    write(kafka, name, numbered("new", 2))

    lenient = drain(kfetch(spark, kafka, subscribe=name, failOnDataLoss="false"), tmp_path)

    assert numbered("new", 2) == lenient.values


@pytest.mark.connector_case(
    "KafkaDontFailOnDataLossSuite",
    "failOnDataLoss=false should not return duplicated records: microbatch v2",
)
def test_expired_records_are_an_error(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Records that were deleted before they were read fail the query; with failOnDataLoss=false it
    goes on at the log's start."""
    name = topic(2)
    write(kafka, name, numbered("v", 4))
    drain(kfetch(spark, kafka, subscribe=name, startingOffsets="earliest"), tmp_path)
    write(kafka, name, numbered("w", 6))
    write(kafka, name, ["beside"], partition=1)
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition(name, 0): 7})

    message = failure(kfetch(spark, kafka, subscribe=name), tmp_path)
    lenient = drain(kfetch(spark, kafka, subscribe=name, failOnDataLoss="false"), tmp_path)

    assert (
        f"RecordsExpired: {name}-0: offsets 4 to 7 have expired unread. The log starts at 7. "
        "Keep records longer (retention) to prevent this. Set failOnDataLoss=false"
    ) in message
    assert [(0, 7), (0, 8), (0, 9), (1, 0)] == lenient.places


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "subscribing topic by pattern with topic deletions",
)
@pytest.mark.long
def test_a_deleted_topic_is_an_error(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A topic that is gone fails the query; with failOnDataLoss=false the others are read."""
    gone, stays = topic(), topic()
    both = f"{gone},{stays}"
    write(kafka, gone, ["a"])
    write(kafka, stays, ["b"])
    drain(kfetch(spark, kafka, subscribe=both, startingOffsets="earliest"), tmp_path)
    delete(kafka, gone)
    write(kafka, stays, ["c"])

    message = failure(kfetch(spark, kafka, subscribe=both), tmp_path)
    lenient = drain(kfetch(spark, kafka, subscribe=both, failOnDataLoss="false"), tmp_path)

    assert f"PartitionGone: {gone}-0 no longer exists, or is not subscribed any more" in message
    assert "The next offset to read was 1" in message
    assert ["c"] == lenient.values


def away(report: Path) -> list[str]:
    """The brokers that the driver cannot reach."""
    return [one["name"] for one in json.loads(report.read_text())["unreachable"]]


def patient(spark: SparkSession, cluster: Cluster, name: str, **options: str) -> object:
    """A source that asks long enough for a broker to come back."""
    retries = {"fetchOffset.numRetries": 10, **options}
    return kfetch(spark, cluster, subscribe=name, startingOffsets="earliest", **retries).select(
        "partition", "offset"
    )


@contextmanager
def arriving(cluster: Cluster, topic: str) -> Iterator[None]:
    """Records arrive in every partition meanwhile."""
    stop = threading.Event()

    def send() -> None:
        with producer(cluster, linger_ms=5) as sender:
            number = 0
            while not stop.wait(0.005):
                for partition in range(PARTITIONS):
                    sender.send(topic, b"%d" % number, partition=partition)
                number += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def grown(before: dict[int, int], now: dict[int, int]) -> bool:
    """Whether every partition has been read further."""
    return all(now[partition] > offset + 100 for partition, offset in before.items())


def every(ends: dict[int, int]) -> list[tuple[int, int]]:
    """Each (partition, offset) once."""
    return [(partition, offset) for partition, end in sorted(ends.items()) for offset in range(end)]


def recreate(cluster: Cluster, topic: str) -> None:
    """Delete a topic of one partition and create it again."""
    delete(cluster, topic)
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        asked = {"num_partitions": 1, "replication_factor": 1}
        admin.create_topics({topic: asked}, wait_for_metadata=True)


def delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic, and wait until the broker knows."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), what="the end of the topic")


def failure(source: object, checkpoint: Path) -> str:
    """Returns the error that the user sees when a query fails."""
    with pytest.raises(StreamingQueryException) as failed:
        drain(source, checkpoint)
    return str(failed.value)
