"""Batch reads in a real Spark, beside Spark's own connector over the same topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka import KafkaAdminClient
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from integration.conftest import TopicFactory
from integration.records import log_ends, producer, write
from integration.spark.batch_reads import read, values
from integration.sparks import Feature, has
from integration.streams import wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
FIRST_MS = 1_700_000_000_000
ORDER = ["topic", "partition", "offset"]


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """Spark passes filters to Python sources."""
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def rows(frame: DataFrame) -> list[Row]:
    """Returns all rows in a fixed order."""
    return sorted(frame.collect(), key=lambda row: tuple(row[name] for name in ORDER))


def put_times(cluster: Cluster, topic: str, times_ms: list[int]) -> None:
    """Append a record for each timestamp, the partitions by turns."""
    with producer(cluster, linger_ms=5) as sender:
        for number, ms in enumerate(times_ms):
            sender.send(topic, b"%d" % ms, partition=number % 2, timestamp_ms=ms)


def at(ms: int) -> Any:
    """Returns a literal for Spark: a moment in time."""
    return F.lit(datetime.fromtimestamp(ms / 1000, UTC))


@pytest.fixture(scope="module")
def mixed(kafka: Cluster) -> str:
    """A topic of three partitions: nulls, headers, committed and aborted transactions, an end that
    is a control record, and an empty partition."""
    name = "batch-mixed"
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        # The records' timestamps are old, and retention goes by them.
        asked = {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        admin.create_topics({name: asked}, wait_for_metadata=True)
    with producer(kafka) as sender:
        for number in range(50):
            headers = [("h", b"%d" % number), ("empty", b"")] if number % 3 else []
            key = b"k%d" % number if number % 2 else None
            sender.send(
                name,
                b"v%d" % number,
                key=key,
                headers=headers,
                partition=0,
                timestamp_ms=FIRST_MS + number,
            )
    with producer(kafka, transactional_id=name) as sender:
        sender.init_transactions()
        for commits in (True, False):
            sender.begin_transaction()
            for number in range(5):
                text = b"%s-%d" % (b"kept" if commits else b"aborted", number)
                sent = sender.send(name, text, partition=1, timestamp_ms=FIRST_MS + number)
            sent.get(30)  # aborting would drop what has not been sent
            sender.commit_transaction() if commits else sender.abort_transaction()
    # A broker writes the end of a transaction after its answer.
    wait_until(lambda: log_ends(kafka, name)[1] == 12)
    return name


VARIANT = pytest.mark.long
CASES = [
    pytest.param({}, id="defaults"),
    pytest.param({"includeHeaders": "true", "minPartitions": "7"}, id="headers-and-more-tasks"),
    pytest.param({"kafka__isolation__level": "read_committed"}, id="committed", marks=VARIANT),
    pytest.param(
        {
            "startingOffsets": {"0": 10, "1": -2, "2": 0},
            "endingOffsets": {"0": 20, "1": -1, "2": -1},
        },
        id="offsets",
    ),
    pytest.param(
        {
            "startingOffsets": {"0": 49, "1": 6, "2": -2},
            "endingOffsets": {"0": 49, "1": 7, "2": 0},
        },
        id="short-ranges",
        marks=VARIANT,
    ),
    pytest.param(
        {
            "startingTimestamp": FIRST_MS + 3,
            "startingOffsetsByTimestampStrategy": "latest",
            "endingTimestamp": FIRST_MS + 4,
        },
        id="times",
    ),
]


@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "default starting and ending offsets",
    "default starting and ending offsets with headers",
    "explicit offsets",
    "global timestamp provided for starting and ending",
)
@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "SPARK-30656: minPartitions",
)
@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "read Kafka transactional messages: *",
)
@pytest.mark.parametrize("case", CASES)
def test_the_rows_of_the_connector(
    spark: SparkSession, kafka: Cluster, connector: None, mixed: str, case: dict[str, Any]
) -> None:
    """Both sources deliver the same rows and columns, between the same bounds."""
    options = {
        name: json.dumps({mixed: value}) if isinstance(value, dict) else value
        for name, value in case.items()
    }
    ours = read(spark, kafka, subscribe=mixed, **options)
    theirs = read(spark, kafka, "kafka", subscribe=mixed, **options)

    assert theirs.schema.simpleString() == ours.schema.simpleString()
    assert rows(theirs) == rows(ours)


@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "test late binding start offsets",
)
def test_offsets_are_bound_when_spark_plans(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory
) -> None:
    """An action fixes the offsets, not load(). Since Spark 4.1, the first one fixes them for all
    actions on the DataFrame."""
    name = topic()
    frame = read(spark, kafka, subscribe=name)
    write(kafka, name, ["before"])
    first = values(frame)
    write(kafka, name, ["after"])

    again = values(frame)

    assert ["before"] == first
    assert first == again if has(Feature.ONE_PLAN_FOR_EACH_LOAD) else ["after", "before"] == again
    assert ["after", "before"] == values(read(spark, kafka, subscribe=name))


def test_nothing_to_read(spark: SparkSession, kafka: Cluster, topic: TopicFactory) -> None:
    """An empty topic, and a pattern that no topic has, give no rows and no error."""
    assert [] == rows(read(spark, kafka, subscribe=topic(3)))
    assert [] == rows(read(spark, kafka, subscribePattern="^no-such-topic$"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "never-created"}, "NoSuchPartition: never-created: no such topic"),
        ({"assign": '{"batch-mixed":[0,9]}'}, "NoSuchPartition: batch-mixed-9: no such"),
        (
            {"subscribe": "batch-mixed", "startingOffsets": "latest"},
            "starting offset can't be latest for batch queries on Kafka",
        ),
        (
            {
                "subscribe": "batch-mixed",
                "endingOffsets": '{"batch-mixed":{"0":51,"1":0,"2":0}}',
            },
            "OffsetBeyondLog: batch-mixed-0: the end offset 51 lies past the log end 50",
        ),
    ],
)
def test_refusals(
    spark: SparkSession, kafka: Cluster, mixed: str, options: dict[str, str], sentence: str
) -> None:
    """What cannot be read whole fails the query with one sentence."""
    with pytest.raises(AnalysisException) as refused:
        read(spark, kafka, **options).collect()

    assert sentence in str(refused.value)


@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "reuse same dataframe in query",
)
def test_a_dataframe_may_be_reused(
    spark: SparkSession, kafka: Cluster, mixed: str, pushdown: None
) -> None:
    """Several queries may use a DataFrame, and one query may use it twice. Spark may keep one set
    of partitions for each load(), so filters never narrow them, also where Spark passes them."""
    frame = read(spark, kafka, assign=json.dumps({mixed: [0]}))

    assert 1 == frame.where("offset = 7").count()
    assert 50 == frame.count()
    assert 100 == frame.union(frame).count()
    assert 2 == frame.where("offset = 7 or offset = 40").count()
