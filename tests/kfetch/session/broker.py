"""A model of a broker's fetch sessions (KIP-227): the cache, its shards, and incremental replies.

Written after the behaviour of Kafka's FetchManager, FetchSession and FetchSessionCacheShard: the
order of checks, adds before forgets, the epoch counted before anything is read, eviction by age
and size. Slow and plain on purpose. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import UUID

from kfetch.model import NO_TOPIC_ID, FetchPosition, TopicPartition
from kfetch.session.metadata import next_epoch
from kfetch.session.partitions import reply_key
from kfetch.session.transitions import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)
from kfetch.session.values import FetchPlan, ReplyKey, SessionReply

SHARDS = 8
EVICTION_MS = 120_000
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
UNKNOWN_TOPIC_ID = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """One partition of a response."""

    error: int = 0
    high_watermark: int = -1
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response: what the session sees of it, and the data."""

    reply: SessionReply
    data: dict[ReplyKey, Data] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Cached:
    """A partition in a session: where to read, and the high watermark last sent."""

    position: FetchPosition
    high_watermark: int = -1


@dataclass(slots=True, kw_only=True)
class Session:
    """One session of the cache."""

    id: int
    uses_topic_ids: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    partitions: dict[ReplyKey, Cached] = field(default_factory=dict)
    size: int = 0
    """Number of partitions when it was last used."""

    def touch(self, now_ms: int) -> None:
        self.used_ms = now_ms
        self.size = len(self.partitions)

    def update(self, plan: FetchPlan) -> None:
        for tp, position in plan.send.items():  # adds first ...
            key = reply_key(tp, position.topic_id, self.uses_topic_ids)
            known = self.partitions.setdefault(key, Cached(position=position))
            known.position = _as_sent(position, self.uses_topic_ids)
        for topic_id, tp in plan.forget:  # ... then forgets
            self.partitions.pop(reply_key(tp, topic_id, self.uses_topic_ids), None)


class Shard:
    """A part of the cache with slots of its own; eviction never looks beyond it."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.sessions: dict[int, Session] = {}

    def has_room(self, size: int, now_ms: int) -> bool:
        return len(self.sessions) < self.slots or self._evicts(size, now_ms)

    def _evicts(self, size: int, now_ms: int) -> bool:
        stalest = min(self.sessions.values(), key=lambda s: (s.used_ms, s.id), default=None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms > EVICTION_MS:
            del self.sessions[stalest.id]
            return True
        old = (s for s in self.sessions.values() if s.used_ms - s.created_ms > EVICTION_MS)
        smallest = min(old, key=lambda s: (s.size, s.id), default=None)
        if smallest is None or (size, 0) < (smallest.size, smallest.id):
            return False  # a newcomer needs strictly more partitions: it compares with id 0
        del self.sessions[smallest.id]
        return True


class Cache:
    """Slots divided by 8, rounded down; newcomers go to the next shard, round and round."""

    def __init__(self, slots: int, ids: Iterator[int]) -> None:
        self.shards = [Shard(slots // SHARDS) for _ in range(SHARDS)]
        self._shard_numbers = count()
        self._ids = ids

    def find(self, session_id: int) -> Session | None:
        return next((s for s in self.all() if s.id == session_id), None)

    def all(self) -> list[Session]:
        return [session for shard in self.shards for session in shard.sessions.values()]

    def remove(self, session_id: int) -> None:
        for shard in self.shards:
            shard.sessions.pop(session_id, None)

    def create(self, size: int, uses_topic_ids: bool, now_ms: int) -> Session | None:
        shard = self.shards[next(self._shard_numbers) % SHARDS]
        if not shard.has_room(size, now_ms):
            return None
        session = Session(
            id=next(self._ids), uses_topic_ids=uses_topic_ids, created_ms=now_ms, used_ms=now_ms
        )
        shard.sessions[session.id] = session
        return session


class Broker:
    """Topics, logs that are only lengths, and the session cache.

    ``room``: how many partitions a full reply names at most. Kafka names all of them. franz-go's
    kfake omits those that come after the reply's limit of bytes, and its session has them.
    """

    def __init__(self, slots: int = 1000, *, room: int | None = None) -> None:
        self.slots = slots
        self.room = room
        self._ids = count(101)
        self.topics: dict[str, UUID] = {}
        self.ends: dict[tuple[UUID, int], int] = {}
        self.errors: dict[tuple[UUID, int], int] = {}
        self.served: dict[ReplyKey, FetchPosition] | None = None
        """Every partition that the last request read, None if it read none."""
        self.restart()

    def restart(self) -> None:
        self.cache = Cache(self.slots, self._ids)

    def create_topic(self, name: str, topic_id: UUID, partitions: int) -> None:
        """Create a topic, or delete it and create it again under another id."""
        self.topics[name] = topic_id
        self.ends.update({(topic_id, index): 0 for index in range(partitions)})

    def append(self, tp: TopicPartition, records: int) -> None:
        self.ends[self.topics[tp.topic], tp.partition] += records

    def fetch(self, plan: FetchPlan, *, now_ms: int = 0, throttle_ms: int = 0) -> Response:
        """ReplyClass the request of ``plan``: the two kinds of context, in the broker's order."""
        self.served = None
        if plan.full:
            self.cache.remove(plan.session_id)  # without any other check
            return self._full(plan, now_ms, throttle_ms)
        session = self.cache.find(plan.session_id)
        error = _refusal(session, plan)
        if session is None or error:
            return Response(reply=SessionReply(error=error))
        session.update(plan)
        if not session.partitions:
            self.cache.remove(session.id)
            return Response(reply=SessionReply(throttle_ms=throttle_ms))
        session.touch(now_ms)
        session.epoch = next_epoch(session.epoch)
        return self._incremental(session, throttle_ms)

    def _full(self, plan: FetchPlan, now_ms: int, throttle_ms: int) -> Response:
        if throttle_ms:  # no data, and no session was made yet
            return Response(reply=SessionReply(throttle_ms=throttle_ms))
        requested = Session(id=0, uses_topic_ids=plan.uses_topic_ids, created_ms=0, used_ms=0)
        requested.update(plan)
        read = self._read(requested)
        data = dict(list(read.items())[: self.room])
        session = None
        if plan.epoch == 0:
            session = self.cache.create(len(read), plan.uses_topic_ids, now_ms)
        if session:
            session.partitions = requested.partitions
            session.touch(now_ms)
            for key, one in data.items():
                session.partitions[key].high_watermark = -1 if one.error else one.high_watermark
        return _response(data, session.id if session else 0, 0)

    def _incremental(self, session: Session, throttle_ms: int) -> Response:
        if throttle_ms:  # the epoch has been counted all the same
            return _response({}, session.id, throttle_ms)
        changed = {}
        for key, read in self._read(session).items():
            cached = session.partitions[key]
            if read.error or read.records or read.high_watermark != cached.high_watermark:
                changed[key] = read
                cached.high_watermark = -1 if read.error else read.high_watermark
            if read.records:  # fairness: those who had their share go to the end
                session.partitions[key] = session.partitions.pop(key)
        return _response(changed, session.id, 0)

    def _read(self, session: Session) -> dict[ReplyKey, Data]:
        self.served = {key: cached.position for key, cached in session.partitions.items()}
        return {key: self._read_one(key, position) for key, position in self.served.items()}

    def _read_one(self, key: ReplyKey, position: FetchPosition) -> Data:
        topic, index = key
        topic_id = topic if isinstance(topic, UUID) else self.topics.get(topic, NO_TOPIC_ID)
        if topic_id not in self.topics.values():
            by_id = isinstance(topic, UUID)
            return Data(error=UNKNOWN_TOPIC_ID if by_id else UNKNOWN_TOPIC_OR_PARTITION)
        if error := self.errors.get((topic_id, index), 0):
            return Data(error=error)
        end = self.ends[topic_id, index]
        if position.offset > end:
            return Data(error=OFFSET_OUT_OF_RANGE)
        return Data(high_watermark=end, records=end - position.offset)


def _as_sent(position: FetchPosition, uses_topic_ids: bool) -> FetchPosition:
    """What of a position is on the wire: topic ids only from Fetch v13 on."""
    return position if uses_topic_ids else replace(position, topic_id=NO_TOPIC_ID)


def _refusal(session: Session | None, plan: FetchPlan) -> int:
    if session is None:
        return FETCH_SESSION_ID_NOT_FOUND
    if session.epoch != plan.epoch:
        return INVALID_FETCH_SESSION_EPOCH
    if session.uses_topic_ids != plan.uses_topic_ids:
        return FETCH_SESSION_TOPIC_ID_ERROR
    return 0


def _response(data: dict[ReplyKey, Data], session_id: int, throttle_ms: int) -> Response:
    reply = SessionReply(session_id=session_id, throttle_ms=throttle_ms, partitions=tuple(data))
    return Response(reply=reply, data=data)


def as_held(
    partitions: dict[TopicPartition, FetchPosition], uses_topic_ids: bool
) -> dict[ReplyKey, FetchPosition]:
    """A client's partitions as the broker would hold them."""
    return {
        reply_key(tp, position.topic_id, uses_topic_ids): _as_sent(position, uses_topic_ids)
        for tp, position in partitions.items()
    }
