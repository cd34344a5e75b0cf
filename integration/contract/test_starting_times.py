"""A time of a start means the same offset for kfetch and Spark's connector, on a real broker."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.contract.connector import Connector
from integration.records import producer
from kfetch.errors import OptionError
from kfetch.spark.options import parse
from kfetch.watch.initial_positions import bound_positions
from kfetch.watch.lookups import OffsetLookup
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

BEGIN_MS = 1_700_000_000_000
# In ms after the begin, in the order of offsets. Times need not grow.
RECORDS = {0: [0, 10, 20, 30], 1: [25, 5, 50], 2: []}
LATEST = {"startingOffsetsByTimestampStrategy": "latest"}


def ours(kafka: Cluster, topic: str, options: dict[str, str]) -> dict[int, int] | str:
    """The offset of each partition at which kfetch starts, or its error."""
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    parsed = parse({**servers, **options})
    with closing(OffsetLookup(parsed)) as lookup:
        try:
            positions = bound_positions(parsed.starting, lookup, lookup.cluster_view())
        except OptionError as error:
            return error.message
    return {tp.partition: position.offset for tp, position in positions.items()}


def theirs(
    connector: Connector, kafka: Cluster, topic: str, options: dict[str, str]
) -> dict[int, int] | str:
    """The same of Spark's connector."""
    try:
        return connector.positions(kafka.bootstrap_servers, topic, options)
    except ValueError as error:
        return str(error)


@pytest.mark.connector_case(
    "KafkaSourceSuiteBase",
    "subscribing topic by * with non-matching starting offset",
)
def test_times_mean_the_same_offsets(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory
) -> None:
    """Global and per partition, with a match and without, with both strategies, empty partitions
    too: both start at the same offsets, or refuse with the same words."""
    name = topic(3)
    with producer(kafka) as sender:
        for partition, deltas in RECORDS.items():
            for delta in deltas:
                sender.send(name, b"v", partition=partition, timestamp_ms=BEGIN_MS + delta)
    times = [BEGIN_MS + delta for delta in (-1, 0, 5, 11, 26, 30, 31, 51)]
    cases: list[dict[str, str]] = [{"startingTimestamp": str(at)} for at in (-1, -2, 0, *times)]
    cases += [
        {"startingOffsetsByTimestamp": json.dumps({name: places})}
        for places in (
            {"0": times[3], "1": times[4], "2": -1},
            {"0": -2, "1": -1, "2": times[0]},
            {"0": times[3], "1": times[4]},
            {"0": 0, "1": 0, "2": 0, "3": 0},
        )
    ]
    connector = Connector(spark)
    for case in cases:
        for options in (case, {**case, **LATEST}):
            expected = theirs(connector, kafka, name, options)
            actual = ours(kafka, name, options)
            if isinstance(expected, dict):
                assert expected == actual, options
                continue
            assert isinstance(actual, str), options
            if expected.startswith("No offset matched"):
                # Both name one partition that has no match: not always the same one.
                assert actual.startswith("No offset matched from request of topic-partition")
            else:
                words, _, _ = expected.partition(" Maybe")
                assert words.rstrip(".") in actual, (expected, actual)
