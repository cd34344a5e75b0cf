"""Helpers that make sessions, plans and replies for the tests."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kfetch.model import NO_TOPIC_ID, FetchPosition, TopicPartition
from kfetch.session.partitions import Changes, reply_keys
from kfetch.session.plan import FetchPlan, Outcome
from kfetch.session.replies import ReplyKey, SessionReply
from kfetch.session.session import FetchSession

ID_A, ID_B, ID_NEW = UUID(int=0xA), UUID(int=0xB), UUID(int=0xC)
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
B0, B1 = TopicPartition("b", 0), TopicPartition("b", 1)


def at(offset: int, topic_id: UUID = NO_TOPIC_ID) -> FetchPosition:
    """A position; without a topic id unless the caller passes one."""
    return FetchPosition(topic_id=topic_id, offset=offset, max_bytes=100)


def pair(plan: FetchPlan | None) -> tuple[int, int] | None:
    """Session id and epoch of a plan."""
    return (plan.session_id, plan.epoch) if plan else None


def where(session: FetchSession) -> tuple[int, int]:
    """Session id and epoch of the session."""
    return session.metadata.session_id, session.metadata.epoch


def good(
    plan: FetchPlan, session_id: int = 0, *, more: Iterable[ReplyKey] = (), throttle_ms: int = 0
) -> SessionReply:
    """A reply that names exactly the partitions sent, and ``more``."""
    keys = [*reply_keys(plan), *more]
    return SessionReply(session_id=session_id, partitions=keys, throttle_ms=throttle_ms)


def exchange(session: FetchSession, changes: Changes, session_id: int = 7) -> Outcome:
    """Sends one request and accepts a good reply."""
    plan = session.plan(changes)
    return session.accept(plan, good(plan, session_id))


def opened(changes: Changes, session_id: int = 7) -> FetchSession:
    """A session that the broker has opened over ``changes``."""
    session = FetchSession()
    exchange(session, changes, session_id)
    return session
