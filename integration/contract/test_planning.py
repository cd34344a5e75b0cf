"""kfetch and Spark's Kafka connector plan the same offsets and ranges, on random backlogs."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from integration.contract.connector import Connector
from kfetch.model import NO_TOPIC_ID, Broker, OffsetRange, TopicPartition
from kfetch.planner import admit, cut

pytestmark = pytest.mark.integration

RANDOM_CASES = 300
LEADER = Broker(node_id=1, host="h", port=1)


@pytest.fixture(scope="module")
def connector(spark: SparkSession) -> Connector:
    """Spark's Kafka connector, 4.2.0."""
    return Connector(spark)


@pytest.mark.connector_case(
    "KafkaOffsetReaderSuite",
    "SPARK-30656: getOffsetRangesFromResolvedOffsets",
)
def test_ranges_are_cut_where_the_connector_cuts_them(connector: Connector) -> None:
    """minPartitions and maxRecordsPerPartition, alone and together, give the connector's ranges."""
    rng = random.Random(5)
    for _ in range(RANDOM_CASES):
        largest = rng.choice([5, 100, 10**6, 2**40])
        sizes = [rng.randrange(-1, largest) for _ in range(rng.randrange(1, 9))]
        backlog = [("t", p, start := rng.randrange(99), start + n) for p, n in enumerate(sizes)]
        min_partitions = rng.choice([None, rng.randrange(1, 40)])
        max_records = rng.choice([None, max(sum(sizes) // rng.randrange(1, 60), 1)])
        items = [
            OffsetRange(
                tp=TopicPartition(topic, partition),
                topic_id=NO_TOPIC_ID,
                start=start,
                end=end,
                leader_epoch=0,
                leader=LEADER,
            )
            for topic, partition, start, end in backlog
        ]
        options = {"minPartitions": min_partitions, "maxRecordsPerPartition": max_records}

        expected = connector.ranges(
            backlog, {name: value for name, value in options.items() if value}
        )
        actual = cut(items, min_partitions=min_partitions, max_records=max_records)
        assert expected == [(*item.tp, item.start, item.end) for item in actual], (backlog, options)


@pytest.mark.long
def test_the_limit_is_divided_as_by_the_connector(connector: Connector) -> None:
    """maxOffsetsPerTrigger admits as many offsets of a partition as the connector, and rarely one
    more. The connector calculates with doubles, which can round a whole number down."""
    rng = random.Random(6)
    extra_offsets = 0
    for _ in range(RANDOM_CASES):
        largest = rng.choice([5, 100, 10**6, 2**40])
        sizes = [rng.randrange(largest) for _ in range(rng.randrange(1, 9))]
        start = [rng.randrange(100) for _ in sizes]
        end = [at + size for at, size in zip(start, sizes, strict=True)]
        limit = rng.randrange(1, sum(sizes) + 2)
        partitions = [TopicPartition("t", p) for p in range(len(sizes))]

        expected = connector.admitted(limit, start, end)
        actual = admit(
            dict(zip(partitions, start, strict=True)),
            dict(zip(partitions, end, strict=True)),
            limit,
        )
        extra = [actual[tp] - offset for tp, offset in zip(partitions, expected, strict=True)]
        assert set(extra) <= {0, 1}, (limit, start, end)
        extra_offsets += sum(extra)

    assert extra_offsets < RANDOM_CASES / 20


def test_floating_point_lowers_the_connectors_share(connector: Connector) -> None:
    """A limit of 100 admits all of two backlogs, 29 and 71. The connector admits 28 and 71."""
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)

    assert [28, 71] == connector.admitted(100, [0, 0], [29, 71])
    assert {a: 29, b: 71} == admit({a: 0, b: 0}, {a: 29, b: 71}, 100)
