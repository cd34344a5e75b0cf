"""What Java's, librdkafka's and kafka-python's producers write to a real broker, kfetch reads as
Java's console consumer does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.conftest import TopicFactory
from integration.contract.content import CODECS, by_worker, every_codec
from integration.interop.java import HERE, console_consumer, java, lines
from integration.nodes import start_node
from integration.records import producer
from kfetch.records.batch import iter_batches
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

COMMITTED = {"kafka.isolation.level": "read_committed"}
VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "java"


def test_javas_producer(kafka: Cluster, topic: TopicFactory) -> None:
    """Idempotent batches in every codec, and transactions committed, aborted and open: row by row
    what the console consumer prints, under both isolation levels."""
    name = topic(6)
    assert f"sent {2500 + 50 + 50 + 80 + 60 + 20}" in java(
        HERE / "Producer.java", kafka.bootstrap_servers, name
    )

    everything = lines(by_worker(kafka, name))
    committed = lines(by_worker(kafka, name, **COMMITTED))

    assert 2760 == len(everything)
    assert 2500 + 50 + 40 + 30 == len(committed)
    assert console_consumer(kafka, name, 2760, isolation="read_uncommitted") == everything
    assert console_consumer(kafka, name, 2620, isolation="read_committed") == committed


def test_librdkafkas_and_kafka_pythons_producers(kafka: Cluster, topic: TopicFactory) -> None:
    """Every codec of both: row by row what the console consumer prints."""
    confluent = pytest.importorskip("confluent_kafka")
    name = topic(len(CODECS))
    for partition, codec in enumerate(CODECS):
        sender = confluent.Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec or "none"}
        )
        for n in range(300):
            headers = [("h", b"%d" % n)] * (n % 3)
            value = None if n % 13 == 0 else b"value %d " % n * 9
            sender.produce(
                name,
                value,
                b"k%d" % n if n % 2 else None,
                partition,
                headers=headers,
                timestamp=1000 + n,
            )
        assert 0 == sender.flush(30)
        with every_codec(), producer(kafka, compression_type=codec, linger_ms=20) as other:
            for n in range(300):
                other.send(name, b"v" * n, b"%d" % n, [("p", b"y")] * (n % 2), partition, 5000 + n)

    delivered = lines(by_worker(kafka, name))

    assert 600 * len(CODECS) == len(delivered)
    assert console_consumer(kafka, name, len(delivered), isolation="read_uncommitted") == delivered


def test_a_segment_of_an_old_broker(
    kafka_cluster: Callable[..., Cluster], topic: TopicFactory
) -> None:
    """A Kafka 4 broker that finds v0 and v1 messages in a log sends them as they are, and kfetch
    reads them as Java wrote them."""
    cluster = kafka_cluster(nodes=1)
    name = topic(cluster=cluster, retention_ms=-1)
    node = cluster.nodes[0]
    directory = node.directory / "data" / f"{name}-0"
    deadline = time.monotonic() + 20
    while not (directory / "partition.metadata").exists():  # made behind the leader's election
        assert time.monotonic() < deadline
        time.sleep(0.05)
    node.kill()
    for old in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        old.unlink()
    mixed = memoryview((VECTORS / "mixed.bin").read_bytes())
    end = next(batch.at for batch in iter_batches(mixed) if batch.header.magic == 2)
    (directory / "00000000000000000000.log").write_bytes(mixed[:end])
    start_node(cluster, 1)

    delivered = by_worker(cluster, name)

    written = [json.loads(line) for line in (VECTORS / "mixed.jsonl").read_text().splitlines()]
    expected = [
        (row["offset"], row["timestamp"], row["type"], row["key"], row["value"])
        for row in written
        if row["epoch"] == -1
    ]
    assert 4 * 12 == len(expected)
    assert expected == [
        (offset, time, kind, _hex(key), _hex(value))
        for key, value, _, _, offset, time, kind, _ in delivered
    ]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()
