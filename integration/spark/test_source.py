"""``format("kfetch")`` in a real Spark: subscriptions, limits, triggers, columns, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.records import numbered, producer, write
from integration.streams import drain, kfetch, running, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_subscribe_reads_every_listed_topic(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Without a register call, subscribe delivers all partitions of all its topics, and no more."""
    first, second, other = topic(2), topic(), topic()
    write(kafka, first, ["a"], partition=1)
    write(kafka, second, ["b"])
    write(kafka, other, ["c"])
    source = kfetch(spark, kafka, subscribe=f"{first}, {second}", startingOffsets="earliest")

    delivered = drain(source, tmp_path)

    assert COLUMNS == source.columns
    assert ["a", "b"] == delivered.values


def test_subscribe_pattern_searches_topic_names(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """subscribePattern delivers the topics in whose names the expression is found."""
    first, second = topic(), topic()
    write(kafka, first, ["a"])
    write(kafka, second, ["b"])
    source = kfetch(spark, kafka, subscribePattern=f"{first[-12:]}$", startingOffsets="earliest")

    assert ["a"] == drain(source, tmp_path).values


def test_assign_reads_the_named_partitions_only(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """assign delivers exactly the partitions that it names."""
    name = topic(3)
    for partition in range(3):
        write(kafka, name, [f"p{partition}"], partition=partition)
    assigned = json.dumps({name: [0, 2]})

    delivered = drain(kfetch(spark, kafka, assign=assigned, startingOffsets="earliest"), tmp_path)

    assert ["p0", "p2"] == delivered.values


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "Kafka column types",
)
def test_headers_are_a_column_when_asked_for(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """includeHeaders adds an array of (key, value); null for a record without headers."""
    name = topic()
    with producer(kafka) as sender:
        sender.send(name, b"bare", partition=0)
        sender.send(name, b"with", partition=0, headers=[("h", b"1"), ("h", b"")])
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest", includeHeaders="true")

    rows = drain(source, tmp_path).rows

    assert [*COLUMNS, "headers"] == source.columns
    assert [None, [("h", b"1"), ("h", b"")]] == [
        row.headers and [(h.key, bytes(h.value)) for h in row.headers] for row in rows
    ]


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "maxOffsetsPerTrigger",
)
def test_a_batch_is_limited_in_proportion_to_backlog(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Backlogs of 101, 11 and 1 with maxOffsetsPerTrigger=10 give 8/1/1, then 9/1/0 offsets."""
    name = topic(3)
    for partition, count in enumerate((101, 11, 1)):
        write(kafka, name, numbered("v", count), partition=partition)
    source = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=10
    )

    delivered = drain(source, tmp_path)

    sizes = [
        [sum(row.partition == partition for row in batch) for partition in range(3)]
        for batch in delivered.batches
    ]
    assert [[8, 1, 1], [9, 1, 0]] == sizes[:2]
    assert [101, 11, 1] == [sum(column) for column in zip(*sizes, strict=True)]


@pytest.mark.parametrize(
    "trigger",
    [{}, pytest.param({"processingTime": "200 milliseconds"}, marks=pytest.mark.long)],
)
def test_a_running_query_delivers_what_arrives(
    spark: SparkSession,
    kafka: Cluster,
    topic: TopicFactory,
    tmp_path: Path,
    trigger: dict[str, object],
) -> None:
    """With the default trigger and with processingTime, records arrive once, in any number of
    batches."""
    name = topic(2)
    write(kafka, name, ["before"])
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest")

    with running(source, tmp_path, **trigger) as (query, delivered):
        wait_until(lambda: ["before"] == delivered.values, query)
        write(kafka, name, ["while"], partition=1)
        wait_until(lambda: delivered.count >= 2, query)

    assert ["before", "while"] == delivered.values
