"""The 30 cases of the connector's ``KafkaSourceSuiteBase``: what each one reads, and from where.

Each is a subscription (assign, subscribe, subscribePattern), a start and a value of failOnDataLoss.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from integration.records import producer
from kfetch_jobs.kafka import Cluster

PARTITIONS = range(5)
ADDED = range(5, 7)
"""The partitions that are added while the query runs."""
FIRST_MS = 1_700_000_000_000
SECOND_MS = FIRST_MS + 1000
OLD = (FIRST_MS, FIRST_MS, FIRST_MS, SECOND_MS, SECOND_MS)
"""The times of the records that each partition has before the query starts."""


@dataclass(frozen=True)
class Start:
    """An option of a start. A dict of places becomes JSON with the topic's name."""

    name: str
    option: str
    place: Any
    offsets: tuple[int, ...]
    """The first offset that the query reads in each partition."""


STARTS = (
    Start("latest offsets", "startingOffsets", "latest", (5,) * 5),
    Start("earliest offsets", "startingOffsets", "earliest", (0,) * 5),
    Start(
        "specific offsets",
        "startingOffsets",
        {"0": -2, "1": -1, "2": 0, "3": 1, "4": 2},
        (0, 5, 0, 1, 2),
    ),
    Start(
        "specific timestamps",
        "startingOffsetsByTimestamp",
        {"0": SECOND_MS, "1": SECOND_MS, "2": SECOND_MS, "3": SECOND_MS, "4": FIRST_MS},
        (3, 3, 3, 3, 0),
    ),
    Start("global timestamp per topic", "startingTimestamp", SECOND_MS, (3,) * 5),
)
SUBSCRIPTIONS = {
    "assign": "assign",
    "subscribe": "subscribing topic by name",
    "subscribePattern": "subscribing topic by pattern",
}


@dataclass(frozen=True)
class Case:
    """One case, with the connector's name for it."""

    subscription: str
    start: Start
    fail_on_data_loss: bool

    @property
    def name(self) -> str:
        """The name of the connector's test."""
        loss = str(self.fail_on_data_loss).lower()
        words = SUBSCRIPTIONS[self.subscription]
        return f"{words} from {self.start.name} (failOnDataLoss: {loss})"

    def options(self, topic: str) -> dict[str, object]:
        """The options of a query over a topic."""
        chosen = {
            "assign": json.dumps({topic: list(PARTITIONS)}),
            "subscribe": topic,
            "subscribePattern": f"{topic}.*",
        }
        place = self.start.place
        return {
            self.subscription: chosen[self.subscription],
            self.start.option: json.dumps({topic: place}) if isinstance(place, dict) else place,
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
            # New partitions are found soon.
            "kafka.metadata.max.age.ms": 1000,
        }

    def places(self, end: int, added_end: int = 0) -> list[tuple[int, int]]:
        """Each (partition, offset) that the query has delivered once all logs are read.

        ``end`` is the log end of each old partition, ``added_end`` that of each new one.
        """
        starts = dict(enumerate(self.start.offsets))
        ends = dict.fromkeys(PARTITIONS, end)
        if self.subscription != "assign":
            starts |= dict.fromkeys(ADDED, 0)
            ends |= dict.fromkeys(ADDED, added_end)
        return [(p, offset) for p, start in starts.items() for offset in range(start, ends[p])]


CASES = [Case(*chosen) for chosen in product(SUBSCRIPTIONS, STARTS, (True, False))]


def old_records(cluster: Cluster, topics: Iterable[str]) -> None:
    """Write the records that are there before a query starts."""
    _send(cluster, ((topic, p, ms) for topic in topics for p in PARTITIONS for ms in OLD))


def one_more(cluster: Cluster, topics: Iterable[str], partitions: Iterable[int]) -> None:
    """Append a record to each partition."""
    chosen = list(partitions)
    _send(cluster, ((topic, p, SECOND_MS + 1) for topic in topics for p in chosen))


def _send(cluster: Cluster, records: Iterator[tuple[str, int, int]]) -> None:
    with producer(cluster, linger_ms=5) as sender:
        for topic, partition, ms in records:
            sender.send(topic, b"v", partition=partition, timestamp_ms=ms)
