"""kfetch and the connector of the installed Spark deliver the same rows: a stream and a batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from integration.conftest import TopicFactory
from integration.contract import content
from integration.contract.content import append, by_kafka_python, by_spark
from integration.records import producer
from integration.streams import drain
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration


@pytest.mark.usefixtures("connector")
def test_a_stream_and_a_batch_have_the_connectors_rows(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """All columns of every kind of record are the connector's, in each codec: nulls, empty values,
    headers, 1 MiB values."""
    name = topic(len(content.CODECS), max_message_bytes=4 * content.MIB)
    records = content.mixed()
    with content.every_codec():
        for partition, codec in enumerate(content.CODECS):
            large = {"max_request_size": 4 * content.MIB, "linger_ms": 20}
            with producer(kafka, compression_type=codec, **large) as sender:
                append(sender, TopicPartition(name, partition), records)
        written = by_kafka_python(kafka, name)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    asked = {"subscribe": name, "startingOffsets": "earliest", "includeHeaders": "true"}

    def stream(source: str) -> DataFrame:
        return in_millis(spark.readStream.format(source).options(**servers, **asked).load())

    def batch(source: str) -> DataFrame:
        return in_millis(spark.read.format(source).options(**servers, **asked).load())

    theirs, ours = (drain(stream(s), tmp_path / s).rows for s in ("kafka", "kfetch"))
    in_batch = [batch(s).collect() for s in ("kafka", "kfetch")]

    assert written == by_spark(theirs) == by_spark(ours)
    assert by_spark(theirs) == by_spark(in_batch[0]) == by_spark(in_batch[1])
    assert stream("kafka").schema == stream("kfetch").schema
    assert batch("kafka").schema == batch("kfetch").schema


def in_millis(source: DataFrame) -> DataFrame:
    """With the timestamp as a number beside it."""
    return source.withColumn("millis", F.unix_millis("timestamp")).drop("timestamp")
