"""Options, ranges, tasks that read them, and the rows that they should get."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from kfetch.agent.inbox import Inbox
from kfetch.agent.shared_query import SharedQuery
from kfetch.model import OffsetRange, TopicPartition
from kfetch.options import SourceOptions
from kfetch.spark import options as parsing
from tests.kfetch.wire.little import LittleKafka

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = 6
Rows = list[tuple[int, int, bytes]]


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait until a condition is true. Returns whether it was in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def options(kafka: LittleKafka, **more: str) -> SourceOptions:
    """Options with short pauses and one batch in a reply."""
    common = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "kafkaConsumer.pollTimeoutMs": "10000",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "5",
        "kafka.max.partition.fetch.bytes": "1",
    }
    return parsing.parse(common | {name.replace("__", "."): text for name, text in more.items()})


def part(kafka: LittleKafka, tp: TopicPartition, start: int = 0, end: int = 0) -> OffsetRange:
    """A range, as the driver would plan it; with no end, the whole log from ``start`` on."""
    log = kafka.log(tp)
    return OffsetRange(
        tp=tp,
        topic_id=kafka.topics[tp.topic].topic_id,
        start=start,
        end=end or log.end,
        leader_epoch=log.epoch,
        leader=kafka.nodes[log.leader or 1].broker,
    )


def expected(kafka: LittleKafka, item: OffsetRange) -> Rows:
    """The rows of the log in a range."""
    return [
        (item.tp.partition, at, kafka.log(item.tp).values[at]) for at in range(item.start, item.end)
    ]


def read(
    query: SharedQuery, *ranges: OffsetRange, pause: Callable[[], object] = lambda: None
) -> Rows:
    """The rows that one task reads. It calls ``pause`` after each batch."""
    rows: Rows = []
    with closing(query.deliveries(ranges, query.options)) as deliveries:
        for delivery in deliveries:
            rows += [(r["partition"], r["offset"], r["value"]) for r in delivery.batch.to_pylist()]
            pause()
    return rows


def pending(inbox: Inbox) -> int:
    """How many deliveries lie in an inbox."""
    return inbox._deliveries.qsize()
