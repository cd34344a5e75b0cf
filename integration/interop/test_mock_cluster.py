"""kfetch reads librdkafka's mock cluster, which knows no fetch sessions, without Spark and with it.

The mock cluster differs from Kafka in three ways that matter here:

- It answers a request for a session with session id 0. kfetch then names every partition each time.
- A long poll lasts its whole time, because new records do not end it.
- A reply has one record batch of each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.agent.reader import Reader
from integration.interop.servers import Place, Server, mock_cluster, produce
from integration.streams import drain, kfetch, running, wait_until
from kfetch.fetch.totals import read_stats

pytestmark = pytest.mark.integration

PARTITIONS = 4
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def mock() -> Iterator[Server]:
    """A mock cluster of three brokers."""
    with mock_cluster(3) as server:
        yield server


def sizes(count: int, size: int = 50) -> list[tuple[int, int]]:
    """Records for all partitions in turn."""
    return [(number % PARTITIONS, size) for number in range(count)]


def read(reader: Reader) -> list[tuple[Place, bytes]]:
    """Every new record, in order of its place. A record that comes twice is there twice."""
    rows = [
        ((partition, offset), value)
        for batch in reader.batches()
        for partition, offset, value in zip(
            *(batch[name].to_pylist() for name in ("partition", "offset", "value")), strict=True
        )
    ]
    return sorted(rows)


@pytest.mark.parametrize("agent", ["process", "inline"])
def test_every_record_comes_once(mock: Server, tmp_path: Path, agent: str) -> None:
    """Two micro-batches have every record once. The brokers refuse every session."""
    first = produce(mock, "clicks", sizes(4000))
    with closing(Reader(mock, "clicks", agent, tmp_path)) as reader:
        assert sorted(first.items()) == read(reader)
        second = produce(mock, "clicks", sizes(400))

        assert sorted(second.items()) == read(reader)

    statistics = read_stats(tmp_path)
    assert 0 == statistics.sessions_opened + statistics.incremental_requests
    assert statistics.sessions_refused > 0
    assert len(first) + len(second) == statistics.records


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(mock: Server, tmp_path: Path, codec: str) -> None:
    """Record batches of every codec are read whole."""
    written = produce(mock, codec, sizes(2000), **{"compression.type": codec})
    with closing(Reader(mock, codec, "inline", tmp_path)) as reader:
        assert sorted(written.items()) == read(reader)


@pytest.mark.long
def test_spark(spark: SparkSession, mock: Server, tmp_path: Path) -> None:
    """A drain, a restart and a running query deliver every record once."""
    expected = produce(mock, "clicks", sizes(4000))
    source = kfetch(spark, mock, subscribe="clicks", startingOffsets="earliest")
    drained = drain(source, tmp_path)
    assert sorted(expected) == drained.places

    for_restart = produce(mock, "clicks", sizes(400))
    with running(source, tmp_path) as (query, delivered):
        wait_until(lambda: delivered.count >= len(for_restart), query)
        while_running = produce(mock, "clicks", sizes(400))
        wait_until(lambda: delivered.count >= len(for_restart) + len(while_running), query)

    assert sorted({**for_restart, **while_running}) == delivered.places
