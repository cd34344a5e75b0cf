"""A query's driver over a little Kafka, and short ways to read its answers."""

from __future__ import annotations

from kfetch import options as parsing
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, from_json
from kfetch.watch.driver import Driver
from kfetch.watch.poller import Poller
from kfetch.watch.watch import Watch
from tests.kfetch.wire.little import LittleKafka

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ALWAYS = {"kafka__metadata__max__age__ms": "0"}
"""Look for new partitions and topics at every look-up."""
opened: list[Driver] = []


class HandWatch(Watch):
    """A watch without threads: it polls every broker once whenever it is asked for news.

    So a test sees what the log is when it looks, and needs no patience.
    """

    def _start(self, poller: Poller) -> None:
        """Polled by hand."""

    def take_changed(self) -> set[TopicPartition]:
        """Poll, twice because a hint may have moved partitions to another broker; then take."""
        for _ in range(2):
            for poller in list(self._pollers.values()):
                if poller.poll() is None:
                    poller._fetcher.close()
        return super().take_changed()

    def wait_for_change(self, timeout_s: float) -> bool:
        """Nothing comes while nobody polls."""
        return False

    def close(self) -> None:
        """Close every session, which the threads would do."""
        for poller in self._pollers.values():
            poller._fetcher.close()
        super().close()


def fill(kafka: LittleKafka) -> None:
    """3 records in t-0, 1 in t-1."""
    kafka.create("t", 2)
    kafka.log(T0).append(b"a", b"b", b"c")
    kafka.log(T1).append(b"x")


def query(kafka: LittleKafka, **given: str) -> Driver:
    """A query's driver, reading t from the beginning unless told otherwise."""
    chosen = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": "t",
        "startingOffsets": "earliest",
        "kafka.request.timeout.ms": "5000",
        "kafka.retry.backoff.ms": "1",
        "kafka.retry.backoff.max.ms": "2",
        "fetchOffset.numRetries": "0",
        "fetchOffset.retryIntervalMs": "0",
    }
    chosen |= {name.replace("__", "."): text for name, text in given.items()}
    if {"assign", "subscribePattern"} & set(given):
        del chosen["subscribe"]
    options = parsing.parse(chosen)
    opened.append(Driver(options, HandWatch(options)))
    return opened[-1]


def logged(offsets: Offsets | None) -> Offsets:
    """The offset after its way through Spark's log."""
    assert offsets is not None
    return from_json(offsets.to_json())


def at(offsets: Offsets | None) -> dict[TopicPartition, int]:
    """Where partitions stand."""
    return {tp: p.offset for tp, p in logged(offsets).positions.items()}


def read(driver: Driver, start: Offsets, end: Offsets) -> dict[TopicPartition, tuple[int, int]]:
    """The ranges that the tasks of a micro-batch read."""
    ranges = [item for split in driver.splits(start, end) for item in split.ranges]
    assert len(ranges) == len({item.tp for item in ranges})
    return {item.tp: (item.start, item.end) for item in ranges}
