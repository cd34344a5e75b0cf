"""What must hold of fetch sessions: the broker's session is what the client believes.

Checked after each reply that a client accepts. Only one request of a session is in flight, so
nothing can have changed since, unless the broker lost the session.

After each reply, refused and lost ones too, the client's session and the changes that it has still
to send are together what its caller wants to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from kfetch.fetch.fetcher import Fetcher
from kfetch.model import NO_TOPIC_ID, FetchPosition, TopicPartition
from kfetch.session.transitions import SessionEvent
from simulation.cluster.cluster import Cluster
from simulation.cluster.sessions import FINAL_EPOCH

_Positions = dict[TopicPartition, FetchPosition | None]


@contextmanager
def sessions_compared(cluster: Cluster, fail: Callable[[str], object]) -> Iterator[None]:
    """A context in which each accepted reply compares the two sides. ``fail`` gets what differs."""
    accept, publish = Fetcher._accept, Fetcher._publish_session_change
    set_position = Fetcher.set_position
    wanted: WeakKeyDictionary[Fetcher, _Positions] = WeakKeyDictionary()

    def compared_accept(self: Fetcher, plan: Any, reply: Any) -> Any:
        accepted = accept(self, plan, reply)
        if accepted is not None:
            difference = _difference(cluster, self)
            if difference:
                fail(difference)
        return accepted

    def checked_publish(self: Fetcher, plan: Any, outcome: Any) -> None:
        if outcome.event in _NEVER:
            fail(f"{self!r}: {outcome.event.value} for {plan.metadata}")
        publish(self, plan, outcome)
        forgotten = "" if _closes(plan) else _forgotten(self, wanted.get(self, {}))
        if forgotten:
            fail(forgotten)

    def noted_set_position(self: Fetcher, tp: TopicPartition, position: Any) -> None:
        wanted.setdefault(self, {})[tp] = position
        set_position(self, tp, position)

    with (
        patch.object(Fetcher, "set_position", noted_set_position),
        patch.object(Fetcher, "_accept", compared_accept),
        patch.object(Fetcher, "_publish_session_change", checked_publish),
    ):
        yield


_NEVER = (SessionEvent.EPOCH_MISMATCH, SessionEvent.INVALID_REPLY)
"""A client that is not sure of its session opens another one, so no broker answers so."""


def _closes(plan: Any) -> bool:
    """Returns whether a request ends its session. Then the client reads no more."""
    return bool(plan.session_id and plan.epoch == FINAL_EPOCH)


def _forgotten(fetcher: Fetcher, wanted: _Positions) -> str:
    """Returns which of its caller's positions a client neither holds nor has still to send."""
    held: _Positions = {**fetcher._session.partitions, **fetcher._pending_positions}
    differs = {tp for tp in {*held, *wanted} if held.get(tp) != wanted.get(tp)}
    return f"{fetcher!r} forgets {sorted(differs)}" if differs else ""


def _difference(cluster: Cluster, fetcher: Fetcher) -> str:
    metadata = fetcher._session.metadata
    session_id = metadata.session_id
    broker = cluster.brokers.get(fetcher.broker.node_id)
    session = broker.sessions.find(session_id) if broker and session_id else None
    if session is None or session.epoch != metadata.epoch:
        return ""
    mine = {
        (p.topic_id if session.by_id else tp.topic, tp.partition): (
            p.offset,
            p.leader_epoch,
            p.last_fetched_epoch,
            p.max_bytes,
        )
        for tp, p in fetcher._session.partitions.items()
        if not session.by_id or p.topic_id != NO_TOPIC_ID
    }
    theirs = {
        key: (one.offset, one.leader_epoch, one.fetched_epoch, one.bytes_max)
        for key, one in session.partitions.items()
    }
    return "" if mine == theirs else f"{fetcher!r} believes {mine}, {broker!r} has {theirs}"
