"""Inline queries, ranges that they read, and the rows that they should get."""

from __future__ import annotations

from typing import Any

from kfetch.agent.inline import InlineQuery
from kfetch.model import OffsetRange, TopicPartition
from kfetch.spark import options as parsing
from tests.kfetch.wire.little import LittleKafka

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Rows = list[tuple[str, int, int, bytes]]
opened: list[InlineQuery] = []


def query(kafka: LittleKafka, **more: str) -> InlineQuery:
    """An inline query with short pauses."""
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafka.request.timeout.ms": "60000",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "5",
        "kafka.max.partition.fetch.bytes": "1",  # one batch in a reply
    }
    options |= {name.replace("__", "."): text for name, text in more.items()}
    opened.append(InlineQuery("q", parsing.parse(options)))
    return opened[-1]


def part(kafka: LittleKafka, tp: TopicPartition, start: int, end: int) -> OffsetRange:
    """A range, as the driver would plan it now."""
    log = kafka.log(tp)
    return OffsetRange(
        tp=tp,
        topic_id=kafka.topics[tp.topic].topic_id,
        start=start,
        end=end,
        leader_epoch=log.epoch,
        leader=kafka.nodes[log.leader or 1].broker,
    )


def rows(batches: Any) -> Rows:
    """Topic, partition, offset and value of every record."""
    return [
        (row["topic"], row["partition"], row["offset"], row["value"])
        for batch in batches
        for row in batch.to_pylist()
    ]


def expected(kafka: LittleKafka, *ranges: OffsetRange) -> Rows:
    """The rows of the log in the ranges."""
    return [
        (item.tp.topic, item.tp.partition, at, kafka.log(item.tp).values[at])
        for item in ranges
        for at in range(item.start, item.end)
    ]


def by_partition(rows: Rows) -> Rows:
    """The rows of one partition after the other; the order within each stays."""
    return sorted(rows, key=lambda row: row[:2])
