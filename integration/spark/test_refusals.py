"""Refused requests: the one clear sentence that a user sees within Spark's error."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from kafka.admin import ACLOperation
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from integration.acls import deny
from integration.conftest import TopicFactory
from integration.streams import PATIENCE_S, drain, kfetch
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.progress.exit_report import ExitKind, exit_kind_of
from kfetch_jobs.run.spark_errors import job_error

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"subscribe": "t", "startingOffset": "latest"},
            "OptionError: option startingoffset is not known: did you mean startingOffsets?",
        ),
        (
            {},
            "OptionError: one of the following options must be specified for Kafka source: "
            "assign, subscribe, subscribePattern; `kfetch options` lists all options",
        ),
        (
            {"subscribe": "t", "assign": '{"t":[0]}'},
            "OptionError: only one of the following options can be specified for Kafka source: "
            "assign, subscribe, subscribePattern; here are assign and subscribe",
        ),
        (
            {"subscribe": "t", "startingOffsets": "sometimes"},
            'OptionError: option startingOffsets: Expected e.g. {"topicA":{"0":23,"1":-1},'
            '"topicB":{"0":-2}}, earliest, latest or group, got sometimes',
        ),
        (
            {"subscribe": "t", "maxOffsetsPerTrigger": "0"},
            "OptionError: option maxOffsetsPerTrigger is '0', but it must be a whole number "
            "above 0",
        ),
        (
            {"subscribe": "t", "kafka.enable.auto.commit": "true"},
            "OptionError: option kafka.enable.auto.commit is not supported: progress lives in "
            "the checkpoint",
        ),
    ],
)
def test_a_bad_option_fails_at_load(
    spark: SparkSession, kafka: Cluster, options: dict[str, str], sentence: str
) -> None:
    """load() fails with a sentence that names the option and what it must be."""
    with pytest.raises(AnalysisException) as refused:
        kfetch(spark, kafka, **options)

    assert sentence in str(refused.value)


def test_no_broker_is_asked_for_at_load(spark: SparkSession) -> None:
    """load() without kafka.bootstrap.servers says so."""
    with pytest.raises(AnalysisException) as refused:
        spark.readStream.format("kfetch").option("subscribe", "t").load()

    assert "'kafka.bootstrap.servers' must be specified" in str(refused.value)


def test_a_schema_with_another_column_is_refused(
    spark: SparkSession, kafka: Cluster, tmp_path: Path
) -> None:
    """A query over .schema(…) with an unknown column fails at its start with one sentence."""
    reader = spark.readStream.format("kfetch").schema("value STRING, ofset BIGINT")
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "t"}
    source = reader.options(**servers).load()

    reason = failure(source, tmp_path)
    assert (
        "OptionError: the schema has ofset, which is no column of the source: did you mean offset?"
    ) in reason
    assert "UnboundLocalError" not in reason


def test_a_topic_that_does_not_exist_fails_the_query(
    spark: SparkSession, kafka: Cluster, tmp_path: Path
) -> None:
    """A subscribed topic that no broker has is named, with the brokers that were asked."""
    source = kfetch(spark, kafka, subscribe="never-created")

    assert (
        "NoSuchPartition: never-created: no such topic or partition at "
        f"{kafka.bootstrap_servers}; create it, or correct the options subscribe or assign"
    ) in failure(source, tmp_path)


def test_starting_offsets_must_name_every_partition(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """JSON without a subscribed partition fails the query and names what it lacks."""
    name = topic(2)
    starting = json.dumps({name: {"0": 0}})
    source = kfetch(spark, kafka, subscribe=name, startingOffsets=starting)

    assert f"option startingOffsets lacks {name}-1" in failure(source, tmp_path)


@pytest.mark.parametrize(
    ("operation", "asking"), [("READ", "watching {}-0 at"), ("DESCRIBE", "asking for topic {}")]
)
def test_a_topic_that_the_broker_denies(
    spark: SparkSession,
    kafka: Cluster,
    topic: TopicFactory,
    tmp_path: Path,
    operation: str,
    asking: str,
) -> None:
    """An ACL of a real broker fails the query at once, with the topic and the remedy."""
    name = topic()
    deny(kafka, name, ACLOperation[operation])
    began = time.monotonic()
    message = failure(kfetch(spark, kafka, subscribe=name, startingOffsets="earliest"), tmp_path)

    assert f"AccessRefused: {asking.format(name)}" in message
    assert "TOPIC_AUTHORIZATION_FAILED (29)" in message
    missing = f"{operation.lower()} topic {name}: the operation {operation} is missing; add it with"
    assert f"{missing} kafka-acls.sh" in message
    assert time.monotonic() - began < PATIENCE_S / 3  # no look-up was tried again and again
    assert ExitKind.AUTH is exit_kind_of(job_error(RuntimeError(message), "failed", tmp_path))


def failure(source: object, checkpoint: Path) -> str:
    """Returns the error that the user sees when a query fails."""
    with pytest.raises(StreamingQueryException) as failed:
        drain(source, checkpoint)
    return str(failed.value)
