"""Queries that start at a time or at a group's offsets, and that commit their progress."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.records import numbered, producer, write
from integration.streams import drain, kfetch
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

PATIENCE_S = 20.0


def consumer(kafka: Cluster, group: str) -> KafkaConsumer:
    """A consumer of a group that joins nothing."""
    return KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False
    )


def committed(kafka: Cluster, group: str, topic: str, partitions: int) -> list[int | None]:
    """The committed offsets of a group."""
    with closing(consumer(kafka, group)) as asking:
        return [asking.committed(TopicPartition(topic, p)) for p in range(partitions)]


def test_a_query_starts_at_a_time(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """The first run starts at the first record of the time; a restart goes on at its checkpoint,
    although the time would mean other offsets by now."""
    name = topic(2)
    now_ms = int(time.time() * 1000)
    with producer(kafka) as sender:
        for minutes in (180, 90, 10):
            for partition in range(2):
                at_ms = now_ms - minutes * 60_000
                sender.send(name, b"v", partition=partition, timestamp_ms=at_ms)
    source = kfetch(spark, kafka, subscribe=name, startingTimestamp="-2h")

    first = drain(source, tmp_path)
    write(kafka, name, ["new"])
    again = drain(source, tmp_path)

    assert [(0, 1), (0, 2), (1, 1), (1, 2)] == first.places
    assert [(0, 3)] == again.places


@pytest.mark.long
def test_a_query_takes_over_from_a_group(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A query goes on where a consumer group stopped, and commits its own progress for a group."""
    name = topic(2)
    for partition in range(2):
        write(kafka, name, numbered("v", 4), partition=partition)
    with closing(consumer(kafka, f"{name}-old")) as old:
        old.assign([TopicPartition(name, 0)])
        old.commit({TopicPartition(name, 0): OffsetAndMetadata(3, "", -1)})
    names = {"kfetch.startingGroup": f"{name}-old", "kfetch.commitGroup": f"{name}-new"}
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="group", **names)

    delivered = drain(source, tmp_path)

    assert [(0, 3), (1, 0), (1, 1), (1, 2), (1, 3)] == delivered.places
    deadline = time.monotonic() + PATIENCE_S
    while [4, 4] != (offsets := committed(kafka, f"{name}-new", name, 2)):
        assert time.monotonic() < deadline, offsets
    assert [3, None] == committed(kafka, f"{name}-old", name, 2)
