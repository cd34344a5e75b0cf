"""A small broker for the session's core: plans in, replies out, logs that are only lengths.

Its cache of fetch sessions is the simulator's (``simulation.cluster.sessions``). The order of its
checks is that of Kafka's FetchManager and FetchSession. Time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from kfetch.model import NO_TOPIC_ID, FetchPosition, TopicPartition
from kfetch.session.partitions import reply_key
from kfetch.session.plan import FetchPlan
from kfetch.session.replies import ReplyKey, SessionReply
from kfetch.session.transitions import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)
from simulation.cluster.sessions import EVICTION_MS, Cache, Session, next_epoch

__all__ = ["EVICTION_MS", "SHARDS", "Broker", "Data", "Response", "as_held"]

SHARDS = 8
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


def _update(session: Session, plan: FetchPlan) -> None:
    for tp, position in plan.send.items():  # adds first ...
        key = reply_key(tp, position.topic_id, session.by_id)
        known = session.partitions.setdefault(key, Cached(position=position))
        known.position = _as_sent(position, session.by_id)
    for topic_id, tp in plan.forget:  # ... then forgets
        session.partitions.pop(reply_key(tp, topic_id, session.by_id), None)


class Broker:
    """Topics, logs that are only lengths, and the session cache.

    ``room``: how many partitions a reply names at most. Kafka names all of them. franz-go's kfake
    omits those that come after the reply's limit of bytes. Its session has them already, and tells
    of them later.
    """

    def __init__(self, slots: int = 1000, *, room: int | None = None) -> None:
        self.slots = slots
        self.room = room
        self._chance = Random(1)
        self.topics: dict[str, UUID] = {}
        self.ends: dict[tuple[UUID, int], int] = {}
        self.errors: dict[tuple[UUID, int], int] = {}
        self.served: dict[ReplyKey, FetchPosition] | None = None
        """Every partition that the last request read, None if it read none."""
        self.restart()

    def restart(self) -> None:
        self.cache = Cache(self.slots, SHARDS, self._chance)

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
        _update(session, plan)
        if not session.partitions:
            self.cache.remove(session.id)
            return Response(reply=SessionReply(throttle_ms=throttle_ms))
        session.touch(now_ms)
        session.epoch = next_epoch(session.epoch)
        return self._incremental(session, throttle_ms)

    def _full(self, plan: FetchPlan, now_ms: int, throttle_ms: int) -> Response:
        if throttle_ms:  # no data, and no session was made yet
            return Response(reply=SessionReply(throttle_ms=throttle_ms))
        requested = Session(0, {}, plan.uses_topic_ids, now_ms)
        _update(requested, plan)
        read = self._read(requested)
        data = dict(list(read.items())[: self.room])
        if plan.epoch != 0:
            return _response(data, 0, 0)
        for key, one in data.items():
            requested.partitions[key].high_watermark = -1 if one.error else one.high_watermark
        session_id = self.cache.create(
            lambda: requested.partitions, len(read), plan.uses_topic_ids, now_ms
        )
        return _response(data, session_id, 0)

    def _incremental(self, session: Session, throttle_ms: int) -> Response:
        if throttle_ms:  # the epoch has been counted all the same
            return _response({}, session.id, throttle_ms)
        changed = {}
        for key, read in self._read(session).items():
            if len(changed) == self.room:
                break
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
    if session.by_id != plan.uses_topic_ids:
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
