"""Damage to a log while a query does not look, and a query that continues after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kfetch.errors import (
    DataLoss,
    LogTruncated,
    OffsetBeyondLog,
    PartitionGone,
    TopicRecreated,
)
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets
from kfetch.watch.driver import Driver
from tests.kfetch.watch.helpers import T0, logged, read
from tests.kfetch.wire.little import LittleKafka

Damage = Callable[[LittleKafka], None]
Ranges = dict[TopicPartition, tuple[int, int]]


def recreated(kafka: LittleKafka) -> None:
    """The topic is deleted and created again, with fewer records."""
    kafka.create("t", 2)
    kafka.log(T0).append(b"new a")


def regrown(kafka: LittleKafka) -> None:
    """The topic is created again, and its log is longer than the old one."""
    kafka.create("t", 2)
    kafka.log(T0).append(*[b"new %d" % n for n in range(9)])


def deleted(kafka: LittleKafka) -> None:
    """The topic is deleted."""
    del kafka.topics["t"]


def shrunk(kafka: LittleKafka) -> None:
    """A partition is gone."""
    kafka.topics["t"].logs.pop()


def expired(kafka: LittleKafka) -> None:
    """Retention has passed the position."""
    kafka.log(T0).append(b"d", b"e", b"f")
    kafka.log(T0).append(b"g", b"h")
    kafka.log(T0).expire(6)


def truncated(kafka: LittleKafka) -> None:
    """An unclean election has lost the last records, and others came in their place."""
    log = kafka.log(T0)
    log.truncate(0)
    log.append(b"a")
    kafka.elect(T0, 2)
    log.append(b"new b", b"new c", b"new d")


def beyond(kafka: LittleKafka) -> None:
    """The log ends below the position, under the same leader epoch."""
    kafka.log(T0).truncate(0)
    kafka.log(T0).append(b"new a")


# Damage after the first batch, the error it is, and what is read on with failOnDataLoss=false.
CASES: list[tuple[Damage, type[DataLoss], str, Ranges]] = [
    (recreated, TopicRecreated, "topic t was deleted and created again", {T0: (0, 1)}),
    (regrown, TopicRecreated, "topic t was deleted and created again", {T0: (0, 9)}),
    (
        deleted,
        PartitionGone,
        "t-0 no longer exists, or is not subscribed",
        {},
    ),
    (
        shrunk,
        PartitionGone,
        "t-1 no longer exists, or is not subscribed",
        {},
    ),
    (truncated, LogTruncated, r"t-0 was truncated at offset 1 \(leader epoch 0\)", {T0: (1, 4)}),
    (beyond, OffsetBeyondLog, "t-0: offset 3 lies past the log end 1", {}),
]

LOSSES = pytest.mark.parametrize(
    ("damage", "kind", "message", "ranges"), CASES, ids=[case[0].__name__ for case in CASES]
)


class Reader:
    """Plays Spark: goes from offset to offset, and keeps the delivered values."""

    def __init__(self, kafka: LittleKafka, driver: Driver) -> None:
        self.kafka = kafka
        self.driver = driver
        self.offsets = logged(driver.initial_offsets())
        self.values: list[bytes] = []
        self.last: Ranges = {}

    def batch(self) -> Offsets | None:
        """Plan and read one micro-batch, if there is one."""
        end = self.driver.next_end(self.offsets, None)
        self.last = {}
        if end is not None:
            start, self.offsets = self.offsets, logged(end)
            self.take(start, self.offsets)
        return end

    def take(self, start: Offsets, end: Offsets) -> None:
        """Read the ranges between two offsets."""
        self.last = read(self.driver, start, end)
        for tp, (first, last) in self.last.items():
            values = self.kafka.log(tp).values
            self.values += [values[at] for at in range(first, last) if at in values]

    def finish(self) -> None:
        """Read until nothing is new."""
        for _ in range(10):
            if self.batch() is None:
                return
        pytest.fail("an idle query goes on and on")
