"""Batch reads in a real Spark, beside Spark's own connector over the same topics."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from integration.benchmarks.peer import connector_jars
from integration.conftest import TopicFactory
from integration.records import log_ends, numbered, producer, write
from integration.streams import wait_until
from kfetch import model
from kfetch.admin import agents
from kfetch.batch import KfetchReader
from kfetch.errors import PartitionGone, RecordsExpired
from kfetch.narrowing import Condition, Operator
from kfetch.options import parse
from kfetch.watch.batch_planning import plan_batch
from kfetch.watch.lookups import OffsetLookup
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


@pytest.fixture(scope="module")
def connector(spark: SparkSession) -> None:
    """Spark's own connector on the session's class path."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'").collect()


def read(
    spark: SparkSession, cluster: Cluster, source: str = "kfetch", **options: object
) -> DataFrame:
    """Load a batch. In the names of options two underscores stand for a dot."""
    texts = {name.replace("__", "."): str(value) for name, value in options.items()}
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return spark.read.format(source).options(**servers | texts).load()


def rows(frame: DataFrame) -> list[Row]:
    """Return all rows in a fixed order."""
    return sorted(frame.collect(), key=lambda row: tuple(row[name] for name in ORDER))


def values(frame: DataFrame) -> list[str]:
    """Return all values as text, sorted."""
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def put_times(cluster: Cluster, topic: str, times_ms: list[int]) -> None:
    """Append a record for each timestamp, the partitions by turns."""
    with producer(cluster, linger_ms=5) as sender:
        for number, ms in enumerate(times_ms):
            sender.send(topic, b"%d" % ms, partition=number % 2, timestamp_ms=ms)


def at(ms: int) -> Any:
    """Return a literal for Spark: a moment in time."""
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


def test_offsets_are_bound_when_spark_plans(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory
) -> None:
    """The first action fixes the offsets, not load(). Spark 4.2 keeps them for the DataFrame."""
    name = topic()
    frame = read(spark, kafka, subscribe=name)
    write(kafka, name, ["before"])
    first = values(frame)
    write(kafka, name, ["after"])

    assert ["before"] == first == values(frame)
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


def test_filters_at_sparks_defaults(spark: SparkSession, kafka: Cluster, mixed: str) -> None:
    """With Spark's setting off, a query with filters runs, also if it asks for narrowed ranges."""
    frame = read(spark, kafka, subscribe=mixed, kfetch__pushFilters="true")

    assert ["v7"] == values(frame.where("partition = 0 and offset = 7"))


def test_filters_narrow_the_ranges(
    spark: SparkSession, kafka: Cluster, mixed: str, pushdown: None
) -> None:
    """With both settings on, partitions that a filter excludes have no task."""

    def frame(**options: str) -> DataFrame:
        whole = read(spark, kafka, subscribe=mixed, kfetch__rowsPerSplit="0", **options)
        return whole.where("partition = 0 and offset between 7 and 9")

    assert 2 == frame().rdd.getNumPartitions()
    assert 1 == frame(kfetch__pushFilters="true").rdd.getNumPartitions()
    assert ["v7", "v8", "v9"] == values(frame(kfetch__pushFilters="true"))


def test_without_the_option_a_dataframe_may_be_reused(
    spark: SparkSession, kafka: Cluster, mixed: str, pushdown: None
) -> None:
    """Spark 4.2 keeps one set of partitions per load(), so by default they are never narrowed."""
    frame = read(spark, kafka, assign=json.dumps({mixed: [0]}))

    assert 1 == frame.where("offset = 7").count()
    assert 50 == frame.count()
    assert 2 == frame.where("offset = 7 or offset = 40").count()


def test_shuffled_timestamps(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, pushdown: None
) -> None:
    """With CreateTime in any order, a narrowed read has every row of the time range."""
    name = topic(2, retention_ms=-1)
    times = [FIRST_MS + ms for ms in range(200)]
    random.Random(7).shuffle(times)
    put_times(kafka, name, times)
    low, high = FIRST_MS + 150, FIRST_MS + 170
    within = (F.col("timestamp") >= at(low)) & (F.col("timestamp") < at(high))

    frame = read(spark, kafka, subscribe=name, kfetch__pushFilters="true").where(within)

    assert [str(ms) for ms in range(low, high)] == values(frame)


def plan(
    cluster: Cluster, topic: str, *conditions: Condition, **options: str
) -> dict[int, tuple[int, int]]:
    """Return (start, end) of each partition's range, as the driver plans it."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    parsed = parse({**servers, **options}, batch=True)
    with closing(OffsetLookup(parsed)) as lookup:
        splits = plan_batch(parsed, lookup, conditions)
    return {i.tp.partition: (i.start, i.end) for split in splits for i in split.ranges}


def test_the_upper_bound_of_append_time(kafka: Cluster, topic: TopicFactory) -> None:
    """The upper bound of time narrows a topic with LogAppendTime, unless it had another setting."""
    name = topic(message_timestamp_type="LogAppendTime")
    write(kafka, name, ["early"])
    early_ms = time.time_ns() // 1_000_000
    wait_until(lambda: time.time_ns() // 1_000_000 > early_ms + 5)
    write(kafka, name, ["late"])
    # Planning allows for clocks that are a second apart.
    before = Condition("timestamp", Operator.LESS, (early_ms + 2 - 1000) * 1000)
    changed = topic()
    write(kafka, changed, ["create-time"])
    set_append_time(kafka, changed)
    write(kafka, changed, ["append-time"])

    assert {0: (0, 1)} == plan(kafka, name, before)
    assert {0: (0, 2)} == plan(kafka, name)
    assert {0: (0, 2)} == plan(kafka, changed, before)


def set_append_time(cluster: Cluster, topic: str) -> None:
    """Give a topic LogAppendTime from now on."""
    from kafka.admin import ConfigResource, ConfigResourceType

    setting = {"message.timestamp.type": "LogAppendTime"}
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, setting)])


def batch_reader(cluster: Cluster, topic: str, **options: str) -> KfetchReader:
    """Return the reader that Spark gets, to plan and to read at different times."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    return KfetchReader(parse({**servers, "kfetch.agent": "inline", **options}, batch=True))


def offsets(reader: KfetchReader, partitions: list[Any]) -> list[int]:
    """Return the offsets that the tasks read."""
    batches = (batch for partition in partitions for batch in reader.read(partition))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


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
    """Return how many queries of all agents have sessions for a topic."""
    return sum(topic in query.topics for status in agents.find() for query in status.queries)


def test_sql_views(spark: SparkSession, kafka: Cluster, topic: TopicFactory) -> None:
    """Temporary views work, made in SQL or over a DataFrame."""
    name = topic()
    write(kafka, name, ["v"])
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW batch_in_sql USING kfetch OPTIONS "
        f"('kafka.bootstrap.servers' '{kafka.bootstrap_servers}', subscribe '{name}')"
    )
    read(spark, kafka, subscribe=name).createOrReplaceTempView("batch_of_frame")

    for view in ("batch_in_sql", "batch_of_frame"):
        assert ["v"] == values(spark.table(view))
        assert [("v",)] == spark.sql(f"SELECT CAST(value AS STRING) FROM {view}").collect()
        spark.catalog.dropTempView(view)


COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)


def test_sql_tables(spark: SparkSession, kafka: Cluster, topic: TopicFactory) -> None:
    """CREATE TABLE is refused with what works instead; WITH gives a table its options."""
    name = topic()
    write(kafka, name, ["v"])
    given = f"'kafka.bootstrap.servers' '{kafka.bootstrap_servers}', subscribe '{name}'"
    with_options = f"'kafka.bootstrap.servers'='{kafka.bootstrap_servers}', 'subscribe'='{name}'"
    advice = "use CREATE TEMPORARY VIEW name USING kfetch OPTIONS"

    session = spark.newSession()
    session.conf.unset("spark.sql.catalog.spark_catalog")  # Delta's can't read such tables

    with pytest.raises(AnalysisException, match=advice):
        session.sql(f"CREATE TABLE batch_table USING kfetch OPTIONS ({given})")
    # With columns, Spark makes a table without asking the source.
    session.sql(f"CREATE TABLE batch_columns ({COLUMNS}) USING kfetch OPTIONS ({given})")
    try:
        with pytest.raises(AnalysisException, match=advice):
            session.table("batch_columns").collect()
        found = session.sql(f"SELECT * FROM batch_columns WITH ({with_options})")
        assert ["v"] == values(found)
    finally:
        session.sql("DROP TABLE batch_columns")


def test_a_schema_of_the_users_own(spark: SparkSession, kafka: Cluster) -> None:
    """A batch with .schema(…) fails with the connector's sentence."""
    reader = spark.read.format("kfetch").schema("value STRING").option("subscribe", "t")
    with pytest.raises(AnalysisException) as refused:
        reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load().collect()

    assert "Kafka source has a fixed schema and cannot be set with a custom one" in str(
        refused.value
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
