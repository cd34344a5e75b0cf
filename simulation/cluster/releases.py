"""The releases of Kafka that a simulated broker can be: versions of requests, and differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
API_VERSIONS, OFFSET_FOR_LEADER_EPOCH = 18, 23
DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of Kafka."""

    name: str
    apis: Mapping[int, tuple[int, int]] = field(hash=False)
    """The lowest and the newest version of each request, by its key."""
    session_shards: int
    """Parts of the cache of fetch sessions (KAFKA-9401, 3.8)."""
    ends_wait_beyond: bool
    """Whether a fetch beyond the high watermark is answered at once (KAFKA-16452, 3.8)."""
    counts_stops: bool
    """Whether a leader's epoch grows when a follower's broker stops, as with ZooKeeper."""


KAFKA_2_8 = Release(
    name="2.8",
    apis={
        FETCH: (0, 12),
        LIST_OFFSETS: (0, 6),
        METADATA: (0, 11),
        OFFSET_COMMIT: (0, 8),
        OFFSET_FETCH: (0, 7),
        FIND_COORDINATOR: (0, 3),
        API_VERSIONS: (0, 3),
        OFFSET_FOR_LEADER_EPOCH: (0, 4),
    },
    session_shards=1,
    ends_wait_beyond=False,
    counts_stops=True,
)
KAFKA_3_9 = Release(
    name="3.9",
    apis={
        FETCH: (0, 17),
        LIST_OFFSETS: (0, 9),
        METADATA: (0, 12),
        OFFSET_COMMIT: (0, 9),
        OFFSET_FETCH: (0, 9),
        FIND_COORDINATOR: (0, 6),
        API_VERSIONS: (0, 4),
        OFFSET_FOR_LEADER_EPOCH: (0, 4),
        DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    },
    session_shards=8,
    ends_wait_beyond=True,
    counts_stops=False,
)
KAFKA_4_3 = Release(
    name="4.3",
    apis={
        FETCH: (4, 18),
        LIST_OFFSETS: (1, 11),
        METADATA: (0, 13),
        OFFSET_COMMIT: (2, 10),
        OFFSET_FETCH: (1, 10),
        FIND_COORDINATOR: (0, 6),
        API_VERSIONS: (0, 4),
        OFFSET_FOR_LEADER_EPOCH: (2, 4),
        DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    },
    session_shards=8,
    ends_wait_beyond=True,
    counts_stops=False,
)
RELEASES = {one.name: one for one in (KAFKA_2_8, KAFKA_3_9, KAFKA_4_3)}
