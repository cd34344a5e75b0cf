"""kfetch delivers, row by row and column by column, what kafka-python's consumer sees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from integration.conftest import TopicFactory
from integration.contract import content
from integration.contract.content import Content, append, by_kafka_python, by_spark, by_worker
from integration.records import producer
from integration.streams import drain, kfetch, wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

LARGE = {"max_request_size": 4 * content.MIB, "linger_ms": 20}


@pytest.fixture(autouse=True)
def every_codec() -> Iterator[None]:
    """kafka-python with all five codecs."""
    with content.every_codec():
        yield


@pytest.fixture(scope="module")
def mixed(kafka: Cluster) -> str:
    """A topic with the mixed content in each codec, a partition each, and all codecs in the last
    partition by turns."""
    name = "mixed-content"
    asked = {
        "num_partitions": len(content.CODECS) + 1,
        "replication_factor": 1,
        "configs": {"max.message.bytes": str(4 * content.MIB)},
    }
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.create_topics({name: asked}, wait_for_metadata=True)
    records = content.mixed()
    last = TopicPartition(name, len(content.CODECS))
    with content.every_codec():
        for number, codec in enumerate(content.CODECS):
            with producer(kafka, compression_type=codec, **LARGE) as sender:
                append(sender, TopicPartition(name, number), records)
                append(sender, last, records[number::10])
                append(sender, last, records[number + 5 :: 10])
    return name


@pytest.fixture(scope="module")
def seen(kafka: Cluster, mixed: str) -> list[content.Row]:
    """The rows of the topic that kafka-python's consumer sees."""
    with content.every_codec():
        return by_kafka_python(kafka, mixed)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "SPARK-27494: read kafka record containing null key/values.",
)
def test_every_codec_and_kind_of_record_through_spark(
    spark: SparkSession, kafka: Cluster, mixed: str, seen: list[content.Row], tmp_path: Path
) -> None:
    """A Spark query delivers nulls, empties, Unicode, every kind of headers and 1 MiB values in
    every codec as they were written."""
    delivered = drain(in_millis(kfetch(spark, kafka, **everything(mixed))), tmp_path)

    assert seen == by_spark(delivered.rows)
    assert set(content.mixed()) == {
        Content(key, value, tuple(headers or ())) for key, value, *_, headers in seen
    }


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"kfetch.rowsPerSplit": "0"}, id="a-split-each"),
        pytest.param({"kafka.fetch.max.bytes": "100000"}, id="small-replies"),
        pytest.param({"kafka.max.partition.fetch.bytes": "1"}, id="a-batch-per-reply"),
        pytest.param({"kafka.check.crcs": "false"}, id="no-crc"),
    ],
)
def test_every_codec_and_kind_of_record_in_the_worker(
    kafka: Cluster, mixed: str, seen: list[content.Row], options: dict[str, str]
) -> None:
    """The limits of fetches and splits change nothing in what is delivered."""
    assert seen == by_worker(kafka, mixed, **options)


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "Kafka column types",
)
def test_log_append_time_is_the_brokers(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Beside a CreateTime topic (type 0), one with LogAppendTime has type 1 and the broker's
    time."""
    name, beside = topic(message_timestamp_type="LogAppendTime"), topic()
    records = [Content(b"k%d" % n, b"v", timestamp=1000 + n) for n in range(100)]
    for codec in (None, "zstd"):
        with producer(kafka, compression_type=codec, linger_ms=20) as sender:
            append(sender, TopicPartition(name, 0), records)
            append(sender, TopicPartition(beside, 0), records)
    seen = by_kafka_python(kafka, name) + by_kafka_python(kafka, beside)

    delivered = drain(in_millis(kfetch(spark, kafka, **everything(f"{name},{beside}"))), tmp_path)

    assert sorted(seen, key=lambda row: row[2:5]) == by_spark(delivered.rows)
    assert {(name, 1), (beside, 0)} == {(row[2], row[6]) for row in seen}
    assert min(row[5] for row in seen if row[2] == name) > 1_600_000_000_000


def test_extreme_timestamps_survive(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Zero, negative, missing (-1) and year 9999 timestamps arrive as they are, in any order."""
    name = topic(message_timestamp_after_max_ms=2**63 - 1)
    times = [253_402_300_799_999, 0, 1, -1, -2, -86_400_000, 1_700_000_000_123, -62_135_596_800_000]
    with producer(kafka, linger_ms=50) as sender:
        place = TopicPartition(name, 0)
        append(sender, place, [Content(b"k", b"v", timestamp=time) for time in times])
        sender.flush(30)
        for time in times:
            append(sender, place, [Content(b"alone", b"v", timestamp=time)])
            sender.flush(30)

    delivered = drain(in_millis(kfetch(spark, kafka, **everything(name))), tmp_path)

    assert times + times == [row.millis for row in delivered.rows]
    assert by_kafka_python(kafka, name) == by_spark(delivered.rows)
    assert by_kafka_python(kafka, name) == by_worker(kafka, name)


def test_a_compacted_topic(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A topic with the gaps of compaction, tombstones among the rest, is read to its end."""
    name = topic(
        2,
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio=0.01,
        max_compaction_lag_ms=100,
        delete_retention_ms=86_400_000,
    )
    clean_often(kafka)
    with producer(kafka, compression_type="lz4", linger_ms=20) as sender:
        rounds = itertools.count()

        def compacted() -> bool:
            """Write another round of the same keys, and one that stays; see what is missing."""
            stays = Content(b"round-%d" % next(rounds), b"v")
            again = [Content(b"k%d" % n, b"v" if n % 3 else None) for n in range(50)]
            for partition in range(2):
                append(sender, TopicPartition(name, partition), [stays, *again])
            sender.flush(30)
            return gaps(by_kafka_python(kafka, name), partitions=2) > 100

        wait_until(compacted, what="compaction")

    def agreed() -> bool:
        """Whether the cleaner left the topic alone while it was read."""
        before = by_kafka_python(kafka, name)
        read = by_worker(kafka, name)
        return before == read and before == by_kafka_python(kafka, name)

    wait_until(agreed, what="agreement with kafka-python")
    delivered = drain(in_millis(kfetch(spark, kafka, **everything(name))), tmp_path)

    assert gaps(by_kafka_python(kafka, name), partitions=2) > 100
    assert by_kafka_python(kafka, name) == by_spark(delivered.rows)


def test_transactions_are_read_uncommitted(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Committed and aborted records are delivered, control records are not, and a log that ends
    with one is read to its end."""
    name = topic(2)
    with producer(kafka, transactional_id=name, compression_type="zstd", linger_ms=20) as sender:
        sender.init_transactions()
        for end in (sender.commit_transaction, sender.abort_transaction) * 2:
            sender.begin_transaction()
            for partition in range(2):
                for number in range(30):
                    sender.send(name, b"v%d" % number, partition=partition)
            sender.flush(30)  # an abort would drop what has not been sent
            end()
    seen = by_kafka_python(kafka, name)

    delivered = drain(in_millis(kfetch(spark, kafka, **everything(name))), tmp_path)

    assert 2 * 4 * 30 == len(seen)
    assert 2 * 3 == gaps(seen, partitions=2)
    assert seen == by_spark(delivered.rows)
    assert seen == by_worker(kafka, name)


def everything(topics: str) -> dict[str, str]:
    """Options to read topics from their beginning with all columns."""
    return {"subscribe": topics, "startingOffsets": "earliest", "includeHeaders": "true"}


def in_millis(source: DataFrame) -> DataFrame:
    """With the timestamp as a number: Python's datetime ends at year 9999 and has a time zone."""
    return source.withColumn("millis", F.unix_millis("timestamp")).drop("timestamp")


def gaps(rows: list[content.Row], *, partitions: int) -> int:
    """How many offsets between the records are missing."""
    offsets = [[row[4] for row in rows if row[3] == p] for p in range(partitions)]
    return sum(listed[-1] - listed[0] + 1 - len(listed) for listed in offsets)


def clean_often(cluster: Cluster) -> None:
    """Let the broker's log cleaner look every 200 ms instead of every 15 s."""
    settings = ConfigResource(
        ConfigResourceType.BROKER, "1", configs={"log.cleaner.backoff.ms": "200"}
    )
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.alter_configs([settings])
