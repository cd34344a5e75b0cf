"""The nouns of kfetch, named as Kafka names them: plain frozen values without behaviour.

Everything else in kfetch speaks in these. Offsets are record offsets in a partition; an end
offset is exclusive. Epochs are leader epochs; -1 means unknown, as on the wire.
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
    """A broker's address, as Metadata gives it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"broker {self.node_id} ({self.host}:{self.port})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """What a fetch session holds for one partition (FetchRequest's FetchPartition).

    Two positions are equal exactly when the broker need not be told of the newer one.
    """

    topic_id: UUID = NO_TOPIC_ID
    offset: int
    """First offset wanted."""
    max_bytes: int
    """Soft limit of the bytes for this partition in one reply."""
    leader_epoch: int = NO_EPOCH
    """Epoch of the leader as the client knows it: fences requests to a stale leader (KIP-320)."""
    last_fetched_epoch: int = NO_EPOCH
    """Epoch of the record batch before ``offset``; lets the broker detect divergence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """A contiguous range of one partition for a task to read, with all that a retry needs."""

    tp: TopicPartition
    topic_id: UUID
    start: int
    """First offset."""
    end: int
    """Exclusive."""
    leader_epoch: int
    """Epoch of ``leader`` at planning, -1 when the broker has none."""
    leader: Broker

    @property
    def size(self) -> int:
        """Number of offsets; an upper bound of the records (compaction, transactions)."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The ranges that one task reads, in order. All of them together are one Spark partition."""

    query: str
    """Identity of the running query: keeps the sessions of two queries apart."""
    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """Who leads a partition, and since which epoch."""

    broker: Broker
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as Metadata tells it."""

    name: str
    topic_id: UUID
    internal: bool
    leaders: Mapping[int, Leader | None]
    """Leader per partition; None while a partition has none (election, brokers down)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What is known of a cluster at one moment: the brokers and the topics asked for."""

    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    """Topics that exist; one that was asked for and is not here does not."""

    def leader(self, tp: TopicPartition) -> Leader | None:
        """The partition's leader, None if it has none or does not exist."""
        topic = self.topics.get(tp.topic)
        return topic.leaders.get(tp.partition) if topic else None

    def exists(self, tp: TopicPartition) -> bool:
        """Whether the partition exists, with or without a leader."""
        topic = self.topics.get(tp.topic)
        return topic is not None and tp.partition in topic.leaders
