"""The values of kfetch, with Kafka's names: frozen, and without behaviour.

All other modules use them. Offsets are record offsets in a partition, and an end offset is
exclusive. Epochs are leader epochs. -1 means unknown, as on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

NO_EPOCH = -1
NO_TOPIC_ID = UUID(int=0)  # brokers before 2.8 have no topic ids (KIP-516)

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels, as requests carry them (KIP-98)."""


class TopicPartition(NamedTuple):
    """A partition of a topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker's address from Metadata."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"broker {self.node_id} ({self.host}:{self.port})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """A partition's entry in a fetch session (FetchRequest's FetchPartition).

    A request names a partition only if its new position differs from the last one.
    """

    topic_id: UUID = NO_TOPIC_ID
    offset: int
    """The first offset to fetch."""
    max_bytes: int
    """The soft limit of this partition's bytes in one reply."""
    leader_epoch: int = NO_EPOCH
    """The leader's epoch as the client knows it. It fences requests to a stale leader (KIP-320)."""
    last_fetched_epoch: int = NO_EPOCH
    """The epoch of the record batch before ``offset``. The broker detects divergence with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """A contiguous range of one partition for a task, with all values that a retry needs."""

    tp: TopicPartition
    topic_id: UUID
    start: int
    """The first offset."""
    end: int
    """The end offset, exclusive."""
    leader_epoch: int
    """The epoch of ``leader`` at planning, -1 if the broker reports none."""
    leader: Broker
    end_epoch: int = NO_EPOCH
    """The epoch of the leader that reported the end; -1 if it is not known. The records before the
    end have this epoch or an earlier one, unless the log was truncated since."""

    @property
    def size(self) -> int:
        """The number of offsets, an upper bound of the records (compaction, transactions)."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The ranges that one task reads, in order. They are one Spark partition."""

    query: str
    """The id of the running query. It keeps the sessions of two queries apart."""
    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """A partition's leader and its leader epoch."""

    broker: Broker
    epoch: int = NO_EPOCH

    def is_older_than(self, epoch: int) -> bool:
        """Returns whether the leader is older than one of ``epoch`` (KIP-320).

        A leader without an epoch counts as new: nothing else would name a successor.
        """
        return NO_EPOCH < self.epoch < epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic from Metadata."""

    name: str
    topic_id: UUID
    internal: bool
    leaders: Mapping[int, Leader | None]
    """The leader of each partition, None while there is none (election, brokers down)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster's brokers and the requested topics, at one moment."""

    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    """The requested topics that exist."""

    @property
    def topic_ids(self) -> dict[str, UUID]:
        """The ids of the topics, without those of brokers that know none."""
        return {name: topic.topic_id for name, topic in self.topics.items() if topic.topic_id.int}

    def leader(self, tp: TopicPartition) -> Leader | None:
        """Returns the partition's leader, None without a leader or a partition."""
        topic = self.topics.get(tp.topic)
        return topic.leaders.get(tp.partition) if topic else None

    def exists(self, tp: TopicPartition) -> bool:
        """Returns whether the partition exists, with or without a leader."""
        topic = self.topics.get(tp.topic)
        return topic is not None and tp.partition in topic.leaders

    def has(self, tp: TopicPartition, topic_ids: Mapping[str, UUID]) -> bool:
        """Whether the partition exists in a topic of the known id, or without a known id."""
        if not self.exists(tp):
            return False
        topic_id, known_id = self.topics[tp.topic].topic_id, topic_ids.get(tp.topic, NO_TOPIC_ID)
        return topic_id == known_id or NO_TOPIC_ID in (topic_id, known_id)
