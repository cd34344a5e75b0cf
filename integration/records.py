"""Records for tests: written with kafka-python's producer, read back with its consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kfetch_jobs.kafka import Cluster


@contextmanager
def producer(cluster: Cluster, **settings: Any) -> Iterator[KafkaProducer]:
    """A producer that has sent everything when the block ends."""
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings)) as opened:
        yield opened
        opened.flush(60)


def write(cluster: Cluster, topic: str, values: Iterable[str], *, partition: int = 0) -> None:
    """Append values to one partition."""
    with producer(cluster, linger_ms=5) as sender:
        for value in values:
            sender.send(topic, value.encode(), partition=partition)


def numbered(prefix: str, count: int) -> list[str]:
    """``prefix-0000``, ``prefix-0001``, … : as text in the order of the numbers."""
    return [f"{prefix}-{number:04}" for number in range(count)]


def consumed(cluster: Cluster, topic: str) -> list[Any]:
    """Every record of a topic, as kafka-python's consumer gives it, by partition and offset."""
    # max_partition_fetch_bytes: a batch of 1 MiB values at once.
    with closing(
        KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False)
    ) as consumer:
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        records = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for polled in consumer.poll(timeout_ms=1000).values():
                records += polled
    return sorted(records, key=lambda record: (record.partition, record.offset))


def log_ends(cluster: Cluster, topic: str) -> dict[int, int]:
    """The end offset of each partition."""
    with closing(KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)) as consumer:
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
        return {tp.partition: end for tp, end in consumer.end_offsets(partitions).items()}
