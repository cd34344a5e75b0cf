"""The size and start of a micro-batch: the options of admission and Spark's triggers."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from integration.checkpoints import batches, forget_commit
from integration.conftest import TopicFactory
from integration.records import numbered, write
from integration.sparks import Feature, needs
from integration.streams import Delivered, drain, finish, kfetch, running, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


def sizes(delivered: Delivered) -> list[int]:
    """The rows of each micro-batch that had any."""
    return [len(rows) for rows in delivered.batches if rows]


def starts(query: StreamingQuery) -> list[datetime]:
    """When the micro-batches that had rows began, by Spark's progress."""
    reports = [one for one in query.recentProgress if one["numInputRows"]]
    return [datetime.fromisoformat(one["timestamp"]) for one in reports]


def wait_for_look_ups(query: StreamingQuery, count: int = 4) -> None:
    """Wait until a query has reported ``count`` idle triggers."""
    seen = len(query.recentProgress)
    wait_until(lambda: len(query.recentProgress) >= seen + count, query, "idle triggers")


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "minOffsetsPerTrigger",
)
@pytest.mark.usefixtures("talkative")
def test_few_records_wait_for_more(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """minOffsetsPerTrigger: the first batch takes what is there; then 4 records wait until 6 more
    make 10, and none is lost or read twice."""
    name = topic(2)
    source = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", minOffsetsPerTrigger=10
    )
    write(kafka, name, numbered("a", 3))

    with running(source, tmp_path) as (query, delivered):
        wait_until(lambda: delivered.count == 3, query)
        write(kafka, name, numbered("b", 4))
        wait_for_look_ups(query)
        waiting = sizes(delivered), batches(tmp_path, "offsets")
        write(kafka, name, numbered("c", 6), partition=1)
        wait_until(lambda: delivered.count == 13, query)

    assert ([3], [0]) == waiting
    assert [3, 10] == sizes(delivered)
    assert [(0, n) for n in range(7)] + [(1, n) for n in range(6)] == delivered.places


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "minOffsetsPerTrigger",
)
def test_the_delay_ends_the_wait(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """maxTriggerDelay after the last batch, one record is enough."""
    name = topic()
    source = kfetch(
        spark,
        kafka,
        subscribe=name,
        startingOffsets="earliest",
        minOffsetsPerTrigger=1000,
        maxTriggerDelay="4s",
    )
    write(kafka, name, ["a"])

    with running(source, tmp_path) as (query, delivered):
        wait_until(lambda: delivered.count == 1, query)
        write(kafka, name, ["b"])
        wait_until(lambda: len(starts(query)) == 2, query)

    first, second = starts(query)
    assert second - first > timedelta(seconds=3)
    assert [1, 1] == sizes(delivered)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "compositeReadLimit",
)
@pytest.mark.usefixtures("talkative")
def test_least_and_most_together(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """With limits of 15 and 20, 55 records are batches of 20, 20 and 15. Then 14 more wait."""
    name = topic()
    limits = {"minOffsetsPerTrigger": 15, "maxOffsetsPerTrigger": 20}
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest", **limits)
    write(kafka, name, numbered("a", 55))

    with running(source, tmp_path) as (query, delivered):
        wait_until(lambda: delivered.count == 55, query)
        write(kafka, name, numbered("b", 14))
        wait_for_look_ups(query)
        waiting = sizes(delivered)
        write(kafka, name, ["c"])
        wait_until(lambda: delivered.count == 70, query)

    assert [20, 20, 15] == waiting
    assert [20, 20, 15, 15] == sizes(delivered)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
)
@needs(Feature.UNLIMITED_ONCE)
def test_trigger_once_ignores_the_limits(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Trigger.Once reads all in one batch, above the maximum and below the minimum."""
    name = topic()
    limits = {"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 5}
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest", **limits)
    seen = []
    for count in (12, 1):
        write(kafka, name, numbered("v", count))
        delivered = Delivered()
        writer = source.writeStream.foreachBatch(delivered.take).trigger(once=True)
        finish(writer.option("checkpointLocation", str(tmp_path)).start())
        seen.append(sizes(delivered))

    assert [[12], [1]] == seen


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "Trigger.AvailableNow",
)
def test_available_now_reads_below_the_least(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """An AvailableNow query reads in limited batches to the ends at its start, though the last
    offsets are below the minimum."""
    name = topic()
    limits = {"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 5}
    write(kafka, name, numbered("v", 12))

    delivered = drain(
        kfetch(spark, kafka, subscribe=name, startingOffsets="earliest", **limits), tmp_path
    )

    assert [5, 5, 2] == sizes(delivered)


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "SPARK-53560: no crash looping during uncommitted batch retry in AvailableNow trigger",
)
def test_available_now_after_a_crash_with_new_partitions(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """An uncommitted batch is repeated as it was, though partitions were added meanwhile; the new
    ones follow in the same run, which ends (SPARK-53560)."""
    name = topic()
    write(kafka, name, numbered("v", 6))
    source = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=4
    )
    drain(source, tmp_path)
    forget_commit(tmp_path, 1)
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.create_partitions({name: 3})
    write(kafka, name, ["new"], partition=2)

    again = drain(source, tmp_path)

    assert [[(0, 4), (0, 5)], [(2, 0)]] == [
        [(row.partition, row.offset) for row in rows] for rows in again.batches
    ]


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "SPARK-30656: minPartitions",
)
@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ({"minPartitions": 6}, 6),
        pytest.param({"maxRecordsPerPartition": 10}, 8, marks=pytest.mark.long),
        pytest.param({"kfetch.rowsPerSplit": 0}, 2, marks=pytest.mark.long),
        ({}, 1),
    ],
)
def test_tasks_of_a_batch(
    spark: SparkSession,
    kafka: Cluster,
    topic: TopicFactory,
    tmp_path: Path,
    given: dict[str, int],
    tasks: int,
) -> None:
    """The options give a batch of 2 x 37 records its tasks, and every record comes once."""
    name = topic(2)
    for partition in range(2):
        write(kafka, name, numbered("v", 37), partition=partition)
    counted: list[int] = []
    source = kfetch(spark, kafka, subscribe=name, startingOffsets="earliest", **given)
    delivered = Delivered()

    def take(frame: object, batch: int) -> None:
        counted.append(frame.rdd.getNumPartitions())  # type: ignore[attr-defined]
        delivered.take(frame, batch)  # type: ignore[arg-type]

    writer = source.writeStream.foreachBatch(take).trigger(availableNow=True)
    finish(writer.option("checkpointLocation", str(tmp_path)).start())

    assert [tasks] == counted
    assert [(p, n) for p in range(2) for n in range(37)] == delivered.places
