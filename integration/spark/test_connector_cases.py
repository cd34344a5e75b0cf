"""Cases of the connector's test suite that no other test has: one real Spark, small topics."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from integration.checkpoints import batches
from integration.conftest import TopicFactory
from integration.records import numbered, producer, write
from integration.sparks import Feature, needs
from integration.streams import Delivered, finish, kfetch, running, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

FIRST_MS = 1_700_000_000_000


def transaction(sender: KafkaProducer, topic: str, offsets: Iterable[int], *, end: str) -> None:
    """Send records whose values are their offsets; ``end``: commit, abort, or nothing."""
    sender.begin_transaction()
    for offset in offsets:
        sender.send(topic, b"%d" % offset, partition=0).get(30)
    if end == "commit":
        sender.commit_transaction()
    elif end == "abort":
        sender.abort_transaction()


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "read Kafka transactional messages: read_committed",
    "read Kafka transactional messages: read_uncommitted",
)
def test_transactions(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """read_committed delivers the records of committed transactions, read_uncommitted all of them.
    Micro-batches of three offsets may begin and end with, or have only, records that no one sees.
    """
    name = topic()
    options = {"subscribe": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 3}
    committed, every = (
        kfetch(spark, kafka, **options, **{"kafka.isolation.level": f"read_{level}"})
        for level in ("committed", "uncommitted")
    )
    with (
        producer(kafka, transactional_id=name) as sender,
        running(committed, tmp_path / "committed") as (one, seen),
        running(every, tmp_path / "every") as (other, all_seen),
    ):
        sender.init_transactions()
        transaction(sender, name, range(5), end="nothing")
        wait_until(lambda: all_seen.count == 5, other)
        before_the_commit = seen.places
        sender.commit_transaction()
        wait_until(lambda: seen.count == 5, one)
        transaction(sender, name, range(6, 11), end="abort")
        transaction(sender, name, range(12, 17), end="commit")
        for offsets in ([18], [20], [22, 23]):
            transaction(sender, name, offsets, end="commit")
        wait_until(lambda: seen.count >= 14, one)
        wait_until(lambda: all_seen.count >= 19, other)

    visible = [*range(5), *range(12, 17), 18, 20, 22, 23]
    assert [] == before_the_commit
    assert [(0, offset) for offset in visible] == seen.places
    assert [(0, offset) for offset in sorted([*visible, *range(6, 11)])] == all_seen.places
    assert {3} >= {len(rows) for rows in [*seen.batches, *all_seen.batches]} - {0, 1, 2}


@pytest.mark.connector_case("KafkaMicroBatchSourceSuiteBase", "KafkaSource with watermark")
@needs(Feature.AVAILABLE_NOW_CLOSES_WINDOWS)
def test_watermark(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Windows over the column ``timestamp`` count by the records' times, and the watermark drops a
    late record."""
    name = topic(retention_ms=-1)
    counts = (
        kfetch(spark, kafka, subscribe=name, startingOffsets="earliest")
        .withWatermark("timestamp", "10 seconds")
        .groupBy(F.window("timestamp", "5 seconds").alias("window"))
        .agg(F.count("*").alias("count"))
        .select((F.unix_millis("window.start") - FIRST_MS).alias("start_ms"), "count")
    )
    found: list[tuple[object, ...]] = []
    for deltas in ([0, 4999, 30_000], [1000, 60_000]):
        with producer(kafka) as sender:
            for delta in deltas:
                sender.send(name, b"v", partition=0, timestamp_ms=FIRST_MS + delta)
        found += rows_of(counts, tmp_path)

    assert [(0, 2), (30_000, 1)] == found


def rows_of(frame: DataFrame, checkpoint: Path) -> list[tuple[object, ...]]:
    """Run an AvailableNow query to its end, and return what it wrote."""
    rows: list[tuple[object, ...]] = []
    writer = frame.writeStream.foreachBatch(lambda one, _: rows.extend(map(tuple, one.collect())))
    finish(
        writer.option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    return rows


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "ensure stream-stream self-join generates only one offset in log and correct metrics",
)
@pytest.mark.usefixtures("connector")
def test_self_join(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A self-join has each pair once. The log has as many offsets as with the connector."""
    name = topic(2)
    sources = {}
    write(kafka, name, ["1", "2"])
    for source in ("kfetch", "kafka"):
        numbers = stream(spark, kafka, source, subscribe=name).selectExpr(
            "CAST(CAST(value AS STRING) AS INT) AS value",
            "CAST(CAST(value AS STRING) AS INT) % 5 AS key",
        )
        pairs = numbers.join(numbers, "key")
        first = rows_of(pairs, tmp_path / source)
        if source == "kfetch":
            write(kafka, name, ["6", "3"], partition=1)
            second = rows_of(pairs, tmp_path / source)
            assert [(1, 1, 1), (2, 2, 2)] == sorted(first)
            assert [(1, 1, 6), (1, 6, 1), (1, 6, 6), (3, 3, 3)] == sorted(second)
        _, _, *lines = (tmp_path / source / "offsets" / "0").read_text().splitlines()
        sources[source] = len(lines)

    assert sources["kafka"] == sources["kfetch"]


def stream(spark: SparkSession, cluster: Cluster, source: str, **options: str) -> DataFrame:
    """A stream of kfetch or of the connector, from the beginning."""
    reader = spark.readStream.format(source).options(**options, startingOffsets="earliest")
    return reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers).load()


@pytest.mark.connector_case("KafkaMicroBatchSourceSuiteBase", "input row metrics")
def test_rows_in_the_progress(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """``numInputRows`` of all progress adds up to the records that were read."""
    name = topic()
    write(kafka, name, numbered("v", 7))
    source = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=3
    )
    with running(source, tmp_path) as (query, delivered):
        wait_until(lambda: len(batches(tmp_path, "commits")) == 3, query)
        wait_until(lambda: counted(query) >= 7, query)

    assert 7 == counted(query) == delivered.count


def counted(query: object) -> int:
    """The rows that the progress of a query has counted."""
    progress = query.recentProgress  # type: ignore[attr-defined]
    return sum(one["numInputRows"] for one in progress)


@pytest.mark.connector_case("KafkaMicroBatchSourceSuiteBase", "async progress tracking")
@pytest.mark.long
def test_asynchronous_progress(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """With Spark's asynchronous progress tracking, no record is lost over a restart."""
    name = topic(5)
    source = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger=5
    )
    seen: set[str] = set()
    for run in range(2):
        write(kafka, name, numbered(f"run-{run}", 15))
        delivered = Delivered()
        query = (
            source.writeStream.foreachBatch(delivered.take)
            .option("checkpointLocation", str(tmp_path))
            .option("asyncProgressTrackingEnabled", "true")
            .option("asyncProgressTrackingCheckpointIntervalMs", "1000")
            # Spark knows sinks by name, and foreachBatch is not among them.
            .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
            .start()
        )
        try:
            wait_until(lambda d=delivered, r=run: awaited(d, r), query)  # type: ignore[misc]
        finally:
            query.stop()
        seen |= set(delivered.values)

    assert {*numbered("run-0", 15), *numbered("run-1", 15)} == seen


def awaited(delivered: Delivered, run: int) -> bool:
    """Whether a run has delivered all of its own records."""
    return set(numbered(f"run-{run}", 15)) <= set(delivered.values)
