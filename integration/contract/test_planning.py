"""Admission and cutting beside the connector's own code: the same numbers, on random backlogs."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from integration.contract.connector import Connector
from kfetch.model import NO_TOPIC_ID, Broker, OffsetRange, TopicPartition
from kfetch.planner import admit, cut

pytestmark = pytest.mark.integration

CASES = 300
LEADER = Broker(node_id=1, host="h", port=1)


@pytest.fixture(scope="module")
def connector(spark: SparkSession) -> Connector:
    """Spark's connector, 4.2.0."""
    return Connector(spark)


def test_ranges_are_cut_where_the_connector_cuts_them(connector: Connector) -> None:
    """minPartitions and maxRecordsPerPartition, alone and together, give the connector's ranges."""
    chance = random.Random(5)
    for _ in range(CASES):
        largest = chance.choice([5, 100, 10**6, 2**40])
        sizes = [chance.randrange(-1, largest) for _ in range(chance.randrange(1, 9))]
        given = [("t", p, start := chance.randrange(99), start + n) for p, n in enumerate(sizes)]
        least = chance.choice([None, chance.randrange(1, 40)])
        most = chance.choice([None, max(sum(sizes) // chance.randrange(1, 60), 1)])
        items = [
            OffsetRange(
                tp=TopicPartition(topic, partition),
                topic_id=NO_TOPIC_ID,
                start=start,
                end=end,
                leader_epoch=0,
                leader=LEADER,
            )
            for topic, partition, start, end in given
        ]
        options = {"minPartitions": least, "maxRecordsPerPartition": most}

        expected = connector.ranges(given, {name: n for name, n in options.items() if n})
        found = cut(items, min_partitions=least, max_records=most)
        assert expected == [(*item.tp, item.start, item.end) for item in found], (given, options)


def test_limits_are_shared_as_the_connector_shares_them(connector: Connector) -> None:
    """maxOffsetsPerTrigger gives each partition the connector's share, or one offset more where
    the connector's doubles come out below the whole number."""
    chance = random.Random(6)
    more = 0
    for _ in range(CASES):
        largest = chance.choice([5, 100, 10**6, 2**40])
        sizes = [chance.randrange(largest) for _ in range(chance.randrange(1, 9))]
        start = [chance.randrange(100) for _ in sizes]
        end = [at + size for at, size in zip(start, sizes, strict=True)]
        limit = chance.randrange(1, sum(sizes) + 2)
        partitions = [TopicPartition("t", p) for p in range(len(sizes))]

        expected = connector.admitted(limit, start, end)
        found = admit(
            dict(zip(partitions, start, strict=True)),
            dict(zip(partitions, end, strict=True)),
            limit,
        )
        extra = [found[tp] - offset for tp, offset in zip(partitions, expected, strict=True)]
        assert set(extra) <= {0, 1}, (limit, start, end)
        more += sum(extra)

    assert more < CASES / 20


def test_a_share_that_doubles_get_wrong(connector: Connector) -> None:
    """29 of 100 offsets at a limit of 100: all 29 here, 28 by the connector."""
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)

    assert [28, 71] == connector.admitted(100, [0, 0], [29, 71])
    assert {a: 29, b: 71} == admit({a: 0, b: 0}, {a: 29, b: 71}, 100)
