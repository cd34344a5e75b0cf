"""A broker's fetch sessions (KIP-227): the cache, its shards, and what each session holds.

Written after Kafka's FetchSession, FetchSessionCacheShard and FetchManager: the order of checks,
adds before forgets, the epoch counted before anything is read, eviction by age and size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any
from uuid import UUID

SESSION_ID_NOT_FOUND = 70
INVALID_SESSION_EPOCH = 71
TOPIC_ID_ERROR = 106
EVICTION_MS = 120_000
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_INT_MAX = 2**31 - 1

Key = tuple[Any, int]
"""(topic id, or name before version 13; partition)."""


class Cached:
    """A partition of a fetch: what the request asks, and what the session has sent."""

    __slots__ = (
        "bytes_max",
        "fetched_epoch",
        "high_watermark",
        "index",
        "key",
        "leader_epoch",
        "log_start",
        "name",
        "offset",
        "topic_id",
    )

    def __init__(self, key: Key, topic_id: UUID | None, name: str | None, wanted: Any) -> None:
        self.key = key
        self.topic_id = topic_id
        """None before version 13."""
        self.name = name
        """None while the broker knows no topic of the id."""
        self.index = key[1]
        self.high_watermark = -1
        self.log_start = -1
        self.update(wanted)

    def update(self, wanted: Any) -> None:
        """Take the values of a request's partition."""
        self.offset: int = wanted.fetch_offset
        self.bytes_max: int = wanted.partition_max_bytes
        self.leader_epoch: int = wanted.current_leader_epoch
        self.fetched_epoch: int = wanted.last_fetched_epoch


class Session:
    """One session of the cache."""

    __slots__ = ("by_id", "created_ms", "epoch", "id", "partitions", "size", "used_ms")

    def __init__(self, session_id: int, partitions: dict[Key, Cached], by_id: bool, now_ms: int):
        self.id = session_id
        self.by_id = by_id
        self.partitions = partitions
        self.created_ms = self.used_ms = now_ms
        self.size = len(partitions)
        """Number of partitions when it was last used."""
        self.epoch = 1

    def touch(self, now_ms: int) -> None:
        """Note a use."""
        self.used_ms = now_ms
        self.size = len(self.partitions)


class Cache:
    """The sessions of a broker. Slots are divided by the shards, rounded down."""

    def __init__(self, slots: int, shards: int, chance: Random) -> None:
        self.slots = slots
        self.sessions: dict[int, Session] = {}
        self._shards: list[dict[int, Session]] = [{} for _ in range(shards)]
        self._range = _INT_MAX // shards
        self._turn = 0
        self._chance = chance

    def find(self, session_id: int) -> Session | None:
        """Returns the session of an id."""
        return self.sessions.get(session_id)

    def remove(self, session_id: int) -> bool:
        """Forget a session. Returns whether there was one."""
        if self.sessions.pop(session_id, None) is None:
            return False
        self._shards[min(session_id // self._range, len(self._shards) - 1)].pop(session_id)
        return True

    def create(
        self, partitions: Callable[[], dict[Key, Cached]], size: int, by_id: bool, now_ms: int
    ) -> int:
        """Returns the id of a new session over partitions; 0 if there is no room."""
        number = self._turn % len(self._shards)
        self._turn += 1
        shard = self._shards[number]
        if len(shard) >= self.slots // len(self._shards) and not self._evict(shard, size, now_ms):
            return 0
        session_id = self._new_id(number)
        session = Session(session_id, partitions(), by_id, now_ms)
        shard[session_id] = self.sessions[session_id] = session
        return session_id

    def _new_id(self, shard: int) -> int:
        while True:
            found = self._chance.randrange(max(1, shard * self._range), (shard + 1) * self._range)
            if found not in self.sessions:
                return found

    def _evict(self, shard: dict[int, Session], size: int, now_ms: int) -> bool:
        stalest = min(shard.values(), key=lambda s: (s.used_ms, s.id), default=None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms > EVICTION_MS:
            return self.remove(stalest.id)
        old = (s for s in shard.values() if s.used_ms - s.created_ms > EVICTION_MS)
        smallest = min(old, key=lambda s: (s.size, s.id), default=None)
        if smallest is None or (size, 0) < (smallest.size, smallest.id):
            return False  # a newcomer needs more partitions: it compares with id 0
        return self.remove(smallest.id)


def next_epoch(epoch: int) -> int:
    """Returns the epoch after another one."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _INT_MAX else epoch + 1


def wanted_partitions(
    topics: Iterable[Any], by_id: bool, name_of: Callable[[UUID], str | None]
) -> Iterable[tuple[Key, UUID | None, str | None, Any]]:
    """Yields key, id, name and entry of each partition that a request names."""
    for topic in topics:
        topic_id = topic.topic_id if by_id else None
        name = name_of(topic_id) if topic_id is not None else topic.topic
        place = topic_id if by_id else name
        for wanted in topic.partitions:
            yield (place, wanted.partition), topic_id, name, wanted


def update(session: Session, request: Any, name_of: Callable[[UUID], str | None]) -> None:
    """Put a request's partitions into a session, then forget those that it wants forgotten."""
    held = session.partitions
    for key, topic_id, name, wanted in wanted_partitions(request.topics, session.by_id, name_of):
        if (known := held.get(key)) is not None:
            known.update(wanted)
        else:
            held[key] = Cached(key, topic_id, name, wanted)
    for topic in request.forgotten_topics_data:
        place = topic.topic_id if session.by_id else topic.topic
        for index in topic.partitions:
            held.pop((place, index), None)
