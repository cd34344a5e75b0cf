"""A read of a time range takes about its share of the bytes, counted in front of the broker.

``KFETCH_TIME_RANGE_RECORDS`` is the number of records, a million by default. The claim in the
documentation is for ten million. They arrive evenly, so that a share of the time is a share of the
records.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from integration.benchmarks.proxy import CountingProxy, proxied
from kfetch_jobs.jvm.java import find_java
from kfetch_jobs.jvm.maven import jars
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.settings import KAFKA

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

RECORDS = int(os.environ.get("KFETCH_TIME_RANGE_RECORDS", "1000000"))
SECONDS = float(os.environ.get("KFETCH_TIME_RANGE_SECONDS", "200"))
"""One percent of this is two seconds. Planning adds one, for clocks that differ."""
PARTITIONS, RECORD_BYTES = 2, 100
REPLY_BYTES = 128 << 10
"""A reply may go so far behind the end of a range, in each partition."""
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CountingProxy, str]]:
    """The proxy of a broker with the topic ``times``, and the proxy's address."""
    with proxied(tmp_path_factory.mktemp("kafka")) as (cluster, proxy, address):
        topic = {
            "num_partitions": PARTITIONS,
            "replication_factor": 1,
            "configs": {"message.timestamp.type": "LogAppendTime"},
        }
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
            admin.create_topics({"times": topic}, wait_for_metadata=True)
        fill_evenly(cluster, tmp_path_factory.mktemp("producer"))
        yield proxy, address


def fill_evenly(cluster: Cluster, directory: Path) -> None:
    """Write the records at an even rate, with Kafka's own producer."""
    command = [
        find_java(),
        *("-cp", ":".join(map(str, jars(*KAFKA)))),
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "times", "--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES)),
        *("--throughput", str(int(RECORDS / SECONDS))),
        *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}", "linger.ms=20"),
    ]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=4 * SECONDS
    )
    assert 0 == done.returncode, done.stderr[-500:]


def middle_ms(address: str) -> int:
    """Returns the time of the record in the middle of partition 0."""
    tp = TopicPartition("times", 0)
    with closing(KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, consumer.end_offsets([tp])[tp] // 2)
        (record,) = consumer.poll(timeout_ms=30_000, max_records=1)[tp]
        return int(record.timestamp)


def read(spark: SparkSession, address: str) -> DataFrame:
    """Load the topic for one query."""
    options = {
        "kafka.bootstrap.servers": address,
        "subscribe": "times",
        "kafka.max.partition.fetch.bytes": str(REPLY_BYTES),
        "kfetch.pushFilters": "true",
    }
    return spark.read.format("kfetch").options(**options).load()


def test_one_percent_of_the_time(spark: SparkSession, filled: tuple[CountingProxy, str]) -> None:
    """A filter on 1 % of the time reads less than 2 % of the bytes, and every row of it."""
    proxy, address = filled
    first_ms = middle_ms(address)
    last_ms = first_ms + int(SECONDS * 10)
    since, before = (F.lit(datetime.fromtimestamp(ms / 1000, UTC)) for ms in (first_ms, last_ms))
    within = (F.col("timestamp") >= since) & (F.col("timestamp") < before)
    proxy.take_tallies()
    expected = read(spark, address).where(within).count()
    whole = proxy.take_tallies()["Fetch"].reply_bytes

    spark.conf.set(PUSHDOWN, "true")
    try:
        found = read(spark, address).where(within).count()
    finally:
        spark.conf.unset(PUSHDOWN)

    part = proxy.take_tallies()["Fetch"].reply_bytes
    print(f"{RECORDS} records: {found} rows, {part} of {whole} bytes, {part / whole:.2%}")
    assert expected == found > 0
    assert RECORDS * RECORD_BYTES < whole
    assert part < 0.02 * whole
