"""A query's life: idle, growing topics, several sources, several queries, and its end."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient
from pyspark.sql import SparkSession

from integration.checkpoints import batches
from integration.conftest import TopicFactory
from integration.records import numbered, write
from integration.streams import drain, kfetch, running, wait_idle, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


@pytest.mark.usefixtures("talkative")
def test_an_idle_query_plans_nothing(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """While nothing arrives, latestOffset stays the same JSON and no batch is planned."""
    name = topic(3)
    write(kafka, name, ["a"])
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest")

    with running(source, tmp_path) as (query, delivered):
        wait_until(lambda: delivered.rows and batches(tmp_path, "commits"), query)
        count_before = len(query.recentProgress)
        wait_until(lambda: len(query.recentProgress) >= count_before + 5, query)
        idle = query.recentProgress[count_before + 1 :]

    assert [0] == batches(tmp_path, "offsets")
    assert {0} == {progress["numInputRows"] for progress in idle}
    assert 1 == len({progress["sources"][0]["latestOffset"] for progress in idle})


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.long), 8])
def test_new_partitions_are_read_from_their_beginning(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, partitions: int
) -> None:
    """Partitions that are added while a latest query runs are delivered from offset 0 on: those of
    a small topic, which metadata tells, and of a large one, which is asked what is new."""
    name = topic(partitions)
    write(kafka, name, ["old"])
    often = {"kafka.metadata.max.age.ms": 1000}

    with running(kfetch(spark, kafka, subscribe=name, **often), tmp_path) as (query, delivered):
        wait_idle(query)
        with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
            admin.create_partitions({name: partitions + 2})
        write(kafka, name, ["new-1"], partition=partitions)
        write(kafka, name, ["new-2", "newer-2"], partition=partitions + 1)
        wait_until(lambda: delivered.count >= 3, query)

    assert [(partitions, 0), (partitions + 1, 0), (partitions + 1, 1)] == delivered.places


@pytest.mark.connector_case(
    "KafkaSourceStressSuite", "stress test with multiple topics and partitions"
)
@pytest.mark.long
def test_new_topics_and_partitions_are_found_by_themselves(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """With the default age of metadata, partitions that are added and topics that come to match a
    pattern are delivered from offset 0 on within 35 seconds."""
    name = topic()
    write(kafka, name, ["old"])
    source = kfetch(spark, kafka, subscribePattern=name)

    with running(source, tmp_path) as (query, delivered):
        wait_idle(query)
        with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
            admin.create_partitions({name: 2})
            admin.create_topics({f"{name}-more": {"num_partitions": 1, "replication_factor": 1}})
        write(kafka, name, ["new-1"], partition=1)
        write(kafka, f"{name}-more", ["new-2", "newer-2"])
        began = time.monotonic()
        wait_until(lambda: delivered.count >= 3, query)
        took_s = time.monotonic() - began

    assert ["new-1", "new-2", "newer-2"] == delivered.values
    assert took_s < 35


def test_two_queries_share_a_dataframe(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Two queries that run at once on one DataFrame each deliver every record once."""
    name = topic(2)
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest")
    write(kafka, name, numbered("v", 50))

    with (
        running(source, tmp_path / "a") as (one, first),
        running(source.select("partition", "offset", "value"), tmp_path / "b") as (two, second),
    ):
        wait_until(lambda: len(first.rows) >= 50, one)
        wait_until(lambda: len(second.rows) >= 50, two)
        write(kafka, name, numbered("w", 50), partition=1)
        wait_until(lambda: len(first.rows) >= 100, one)
        wait_until(lambda: len(second.rows) >= 100, two)

    expected = numbered("v", 50) + numbered("w", 50)
    assert expected == first.values
    assert expected == second.values


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "SPARK-22956: currentPartitionOffsets should be set when no new data comes in",
)
def test_a_union_reads_both_its_sources(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A query over two kfetch sources delivers both, and goes on with both from its checkpoint."""
    left, right = topic(), topic(2)
    sources = [
        kfetch(spark, kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=3)
        for name in (left, right)
    ]
    write(kafka, left, numbered("l", 4))
    write(kafka, right, numbered("r", 2), partition=1)

    first = drain(sources[0].union(sources[1]), tmp_path)
    write(kafka, right, ["new"])
    again = drain(sources[0].union(sources[1]), tmp_path)

    assert numbered("l", 4) + numbered("r", 2) == first.values
    assert ["new"] == again.values


@pytest.mark.long  # test_self_join has such a join, too
def test_two_streams_can_be_joined(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A stream-stream join of two kfetch sources pairs equal values, with state across runs."""
    left, right = topic(), topic()
    write(kafka, left, ["a", "b"])
    write(kafka, right, ["b"])
    sources = [
        kfetch(spark, kafka, subscribe=name, startingOffsets="earliest") for name in (left, right)
    ]
    joined = sources[0].join(sources[1].select("value"), "value")

    first = drain(joined, tmp_path)
    write(kafka, right, ["a"])
    again = drain(joined, tmp_path)

    assert ["b"] == first.values
    assert ["a"] == again.values


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "cannot stop Kafka stream",
)
def test_stop_is_quick_and_leaves_no_process(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """stop() of an idle query returns within seconds, and its source process ends."""
    name = topic()
    with running(kfetch(spark, kafka, subscribe=name), tmp_path) as (query, _):
        wait_idle(query)
        before = source_processes()
        begun = time.monotonic()
        query.stop()
        took_s = time.monotonic() - begun

    assert 1 == len(before)
    assert took_s < 10
    wait_until(lambda: not any(process.is_running() for process in before), what="its end")


def source_processes() -> list[psutil.Process]:
    """The processes in which Spark runs the driver's half of Python sources."""
    return [process for process in psutil.Process().children(recursive=True) if _plans(process)]


def _plans(process: psutil.Process) -> bool:
    try:
        return any("python_streaming_source_runner" in word for word in process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return False
