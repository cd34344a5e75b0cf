"""A cluster's metadata at one moment. Brokers share it; one that lags keeps an old one."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """What the controller says of a partition."""

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TopicImage:
    """What the controller says of a topic."""

    name: str
    id: UUID
    partitions: tuple[PartitionImage, ...]
    append_time: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """All topics, and the brokers that are registered."""

    topics: dict[str, TopicImage] = field(default_factory=dict)
    names: dict[UUID | None, str] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()
