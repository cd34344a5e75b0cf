"""kfetch and Spark's Kafka connector refuse the same options, in words that tools match on."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from integration.contract.connector import Connector
from kfetch.errors import OptionError
from kfetch.spark.options import parse

pytestmark = pytest.mark.integration

TOPIC = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}

STREAMS: list[tuple[dict[str, str], str]] = [
    ({}, "options must be specified"),
    ({"kafka.bootstrap.servers": "h:1"}, "options must be specified"),
    ({"subscribe": "t", "subscribePattern": "t.*"}, "options can be specified"),
    ({"subscribe": "t", "assign": '{"a":[0]}'}, "options can be specified"),
    ({"assign": ""}, "no topicpartitions to assign"),
    ({"assign": "5"}, "no topicpartitions to assign"),
    ({"subscribe": ""}, "no topics to subscribe"),
    ({"subscribe": " , "}, "no topics to subscribe"),
    ({"subscribePattern": ""}, "pattern to subscribe is empty"),
    ({"subscribe": "t"}, "'kafka.bootstrap.servers' must be specified"),
    ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
    ({"endingOffsets": "latest", **TOPIC}, "ending offset not valid in streaming queries"),
    (
        {"endingOffsetsByTimestamp": "{}", **TOPIC},
        "ending timestamp not valid in streaming queries",
    ),
    ({"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15", **TOPIC}, "is higher than the"),
]
BOTH: list[tuple[dict[str, str], str]] = [
    ({"minPartitions": "0", **TOPIC}, "minpartitions must be positive"),
    ({"minPartitions": "-3", **TOPIC}, "minpartitions must be positive"),
    ({"maxRecordsPerPartition": "0", **TOPIC}, "maxrecordsperpartition must be positive"),
    ({"kafka.auto.offset.reset": "none", **TOPIC}, "not supported"),
    ({"kafka.key.deserializer": "x", **TOPIC}, "not supported"),
    ({"kafka.value.deserializer": "x", **TOPIC}, "not supported"),
    ({"kafka.enable.auto.commit": "true", **TOPIC}, "not supported"),
    ({"kafka.interceptor.classes": "x", **TOPIC}, "not supported"),
    ({"startingTimestamp": "soon", **TOPIC}, "expected a single long value, got soon"),
    ({"startingTimestamp": " x ", **TOPIC}, "expected a single long value, got x"),
    ({"startingTimestamp": "", **TOPIC}, "expected a single long value, got "),
    ({"startingTimestamp": "1.5", **TOPIC}, "expected a single long value, got 1.5"),
    ({"startingOffsets": "newest", **TOPIC}, "expected e.g. "),
    ({"startingOffsets": "[1]", **TOPIC}, 'expected e.g. {"topica":{"0":23,"1":-1}'),
    ({"startingOffsets": '{"t":{"x":1}}', **TOPIC}, 'expected e.g. {"topica":{"0":23,"1":-1}'),
    ({"startingOffsets": "", **TOPIC}, 'expected e.g. {"topica":{"0":23,"1":-1}'),
    (
        {"startingOffsetsByTimestamp": "5", **TOPIC},
        'expected e.g. {"topica": {"0": 123456789, "1": 123456789},',
    ),
]
BATCHES: list[tuple[dict[str, str], str]] = [
    ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on kafka"),
    (
        {"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'},
        "startingoffsets for t-0 can't be latest for batch queries on kafka",
    ),
    ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on kafka"),
    (
        {"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'},
        "ending offset for t-0 can't be earliest for batch queries on kafka",
    ),
    ({"endingTimestamp": "x", **TOPIC}, "expected a single long value, got x"),
]
COMPARED: list[tuple[dict[str, str], str]] = [
    (
        {
            "startingOffsets": '{"t":{"0":1,"1":1,"2":1}}',
            "endingOffsets": '{"t":{"0":0,"1":0}}',
            **TOPIC,
        },
        "the specified start offset and end offset should have the same topic-partitions.",
    ),
    (
        {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":0}}', **TOPIC},
        "the specified start offset 1 is greater than the end offset 0 for topic t partition 0",
    ),
    (
        {
            "startingOffsetsByTimestamp": '{"t":{"0":6}}',
            "endingOffsetsByTimestamp": '{"t":{"0":5}}',
            **TOPIC,
        },
        "the specified start timestamp 6 is greater than the end timestamp 5 for topic t partition",
    ),
]
ACCEPTED: list[dict[str, str]] = [
    {},
    {"startingOffsets": "Earliest"},
    {"startingOffsets": ' {"t":{"0":5}} '},
    {"startingTimestamp": "-1"},
    {"startingTimestamp": " 5 "},
    {"startingTimestamp": "+5"},
    {"startingTimestamp": "5", "startingOffsets": "nonsense"},
    {"startingOffsetsByTimestamp": '{"t":{"0":-2}}', "startingOffsets": "nonsense"},
    {"startingOffsetsByTimestampStrategy": "LATEST"},
    {"minPartitions": "+5", "maxRecordsPerPartition": "9223372036854775807"},
    {"kafka.group.id": "g", "groupIdPrefix": "p"},
]
CASES = (
    [(*row, False) for row in STREAMS]
    + [(*row, batch) for row in BOTH for batch in (False, True)]
    + [(*row, True) for row in [*BATCHES, *COMPARED]]
)


@pytest.fixture(scope="module")
def connector(spark: SparkSession) -> Connector:
    """The connector of the installed Spark."""
    return Connector(spark)


def refusal(options: dict[str, str], *, batch: bool) -> str:
    """What kfetch says to options; empty if they are good."""
    try:
        parse(options, batch=batch)
    except OptionError as error:
        return error.message
    return ""


@pytest.mark.connector_case(
    "KafkaMicroBatchV2SourceSuite",
    "minPartitions is supported",
)
@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "bad source options",
    "unsupported kafka configs",
)
@pytest.mark.connector_case(
    "KafkaRelationSuiteBase",
    "bad batch query options",
)
def test_both_refuse_the_same_options(connector: Connector) -> None:
    """Each wrong option is refused by both, with the words that the connector's own tests match.

    Before Spark 4.1, the connector compares start and end later."""
    later = [] if connector.compares_bounds else [options for options, _ in COMPARED]
    for options, words, batch in CASES:
        theirs, ours = connector.refusal(options, batch=batch), refusal(options, batch=batch)

        assert (words in theirs.lower()) != (options in later), (options, batch, theirs)
        assert words in ours.lower(), (options, batch, ours)


def test_kfetch_accepts_what_the_connector_accepts(connector: Connector) -> None:
    """Each option that the connector accepts has the same right here."""
    for options in ACCEPTED:
        for batch in (False, True):
            both = connector.refusal({**TOPIC, **options}, batch=batch)
            assert ("", "") == (both, refusal({**TOPIC, **options}, batch=batch)), options
