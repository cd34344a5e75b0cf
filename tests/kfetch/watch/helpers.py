"""A query's driver over a little Kafka, and helpers that read its answers."""

from __future__ import annotations

from collections.abc import Mapping

from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, from_json
from kfetch.spark import options as parsing
from kfetch.watch.driver import Driver
from kfetch.watch.poller import Poller
from kfetch.watch.watch import Watch
from tests.kfetch.wire.little import LittleKafka

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ALWAYS = {"kafka__metadata__max__age__ms": "0"}
"""Options: the driver asks for new partitions and topics at every planning."""
opened: list[Driver] = []


class HandWatch(Watch):
    """A watch without threads. It polls every broker when the driver takes the changes.

    So a test sees the current log without waiting.
    """

    def _start(self, poller: Poller) -> None:
        """Start no thread: ``take_changed`` polls."""

    def take_changed(self) -> set[TopicPartition]:
        """Poll twice, because a hint may move partitions to another broker; return the changes."""
        for _ in range(2):
            for poller in list(self._pollers.values()):
                if poller.poll() is None:
                    poller._fetcher.close()
        return super().take_changed()

    def wait_for_change(self, timeout_s: float) -> bool:
        """Returns at once: no thread polls."""
        return False

    def close(self) -> None:
        """Close every session, as the threads would."""
        for poller in self._pollers.values():
            poller._fetcher.close()
        super().close()


def fill(kafka: LittleKafka) -> None:
    """3 records in t-0, 1 in t-1."""
    kafka.create("t", 2)
    kafka.log(T0).append(b"a", b"b", b"c")
    kafka.log(T1).append(b"x")


def query(kafka: LittleKafka, **options: str) -> Driver:
    """Returns a query's driver. By default it reads t from the beginning."""
    chosen = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "kafka.request.timeout.ms": "60000",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "2",
        "fetchOffset.numRetries": "0",
        "fetchOffset.retryIntervalMs": "0",
    }
    chosen |= {name.replace("__", "."): text for name, text in options.items()}
    if {"assign", "subscribePattern"} & set(options):
        del chosen["subscribe"]
    parsed = parsing.parse(chosen)
    opened.append(Driver(parsed, HandWatch(parsed)))
    return opened[-1]


def logged(offsets: Offsets | None) -> Offsets:
    """Returns the offsets as they come back from Spark's log."""
    assert offsets is not None
    return from_json(offsets.to_json())


def at(offsets: Offsets | None) -> dict[TopicPartition, int]:
    """Returns the offset of each partition."""
    return {tp: p.offset for tp, p in logged(offsets).positions.items()}


def read(driver: Driver, start: Offsets, end: Offsets) -> dict[TopicPartition, tuple[int, int]]:
    """Returns the range that a micro-batch reads of each partition."""
    ranges = [item for split in driver.splits(start, end) for item in split.ranges]
    assert len(ranges) == len({item.tp for item in ranges})
    return {item.tp: (item.start, item.end) for item in ranges}


def loss_counts(driver: Driver) -> Mapping[str, int]:
    """Returns the number of losses that a driver has found, by the names of their errors."""
    return driver._check.loss_counts
