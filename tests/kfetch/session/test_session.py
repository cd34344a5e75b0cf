"""The fetch session by hand: what is sent, forgotten, verified, counted and asked for again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from kfetch.model import TopicPartition
from kfetch.session.metadata import EPOCH_MAX, FetchMetadata, next_epoch
from kfetch.session.replies import SessionReply
from kfetch.session.session import FetchSession
from kfetch.session.transitions import SessionEvent, SessionState
from tests.kfetch.session.helpers import (
    A0,
    A1,
    B0,
    B1,
    ID_A,
    ID_B,
    ID_NEW,
    at,
    exchange,
    good,
    opened,
    pair,
    where,
)


def test_first_plan_is_full_and_in_order() -> None:
    """The first request names every partition in the caller's order and asks for a session."""
    plan = FetchSession().plan({B0: at(3), A0: at(1)})

    assert (0, 0) == pair(plan)
    assert plan.full
    assert [(B0, at(3)), (A0, at(1))] == list(plan.send.items())
    assert () == plan.forget


def test_incremental_plan_names_only_what_changed() -> None:
    """An altered and a new partition are sent, a removed one is forgotten, the rest is implied."""
    session = opened({A0: at(0, ID_A), A1: at(0, ID_A), B0: at(0, ID_B)})
    plan = session.plan({B1: at(0, ID_B), A1: None, A0: at(5, ID_A)})

    assert (7, 1) == pair(plan)
    assert [(B1, at(0, ID_B)), (A0, at(5, ID_A))] == list(plan.send.items())
    assert ((ID_A, A1),) == plan.forget
    session.accept(plan, SessionReply(session_id=7))

    assert {A0: at(5, ID_A), B0: at(0, ID_B), B1: at(0, ID_B)} == session.partitions
    assert [A0, B0, B1] == list(session.partitions)


def test_equal_change_is_implied() -> None:
    """A change to what the broker holds already, or to forget what it does not, is not sent."""
    plan = opened({A0: at(1)}).plan({A0: at(1), B0: None})

    assert ({}, ()) == (plan.send, plan.forget)


@pytest.mark.parametrize(
    "change",
    [{"offset": 2}, {"max_bytes": 9}, {"leader_epoch": 4}, {"last_fetched_epoch": 4}],
    ids=str,
)
def test_each_field_alters(change: dict[str, Any]) -> None:
    """A partition is sent again when any field of its position changes (KAFKA-9338: epochs too)."""
    position = replace(at(1, ID_A), **change)
    plan = opened({A0: at(1, ID_A)}).plan({A0: position})

    assert {A0: position} == plan.send


def test_replaced_topic_id_is_forgotten_under_its_old_id() -> None:
    """Keyed by id, a re-created topic is forgotten under the old id and sent under the new one."""
    session = opened({A0: at(9, ID_A), B0: at(0, ID_B)})
    plan = session.plan({A0: at(0, ID_NEW)})

    assert plan.uses_topic_ids
    assert {A0: at(0, ID_NEW)} == plan.send
    assert ((ID_A, A0),) == plan.forget
    outcome = session.accept(plan, SessionReply(session_id=7, partitions=[(ID_NEW, 0)]))

    assert {(ID_NEW, 0): A0} == outcome.partitions


def test_replaced_topic_id_is_only_sent_where_names_are_keys() -> None:
    """Keyed by name it is never forgotten: the broker adds first and would then forget the new."""
    session = FetchSession(topic_ids=False)
    exchange(session, {A0: at(9, ID_A)})
    plan = session.plan({A0: at(0, ID_NEW)})

    assert not plan.uses_topic_ids
    assert ({A0: at(0, ID_NEW)}, ()) == (plan.send, plan.forget)


def test_old_id_in_a_reply_is_a_stranger_after_replacement() -> None:
    """Once a plan has replaced a topic id, a reply under the old one is invalid."""
    session = opened({A0: at(9, ID_A)})
    plan = session.plan({A0: at(0, ID_NEW)})
    outcome = session.accept(plan, SessionReply(session_id=7, partitions=[(ID_A, 0)]))

    assert SessionEvent.INVALID_REPLY == outcome.event


def test_one_partition_of_a_topic_may_be_replaced_alone() -> None:
    """Two partitions of one name may have two ids for a while, and both are resolved."""
    session = opened({A0: at(9, ID_A), A1: at(9, ID_A)})
    exchange(session, {A0: at(0, ID_NEW)})
    plan = session.plan({})
    both = SessionReply(session_id=7, partitions=[(ID_NEW, 0), (ID_A, 1)])

    assert {(ID_NEW, 0): A0, (ID_A, 1): A1} == session.accept(plan, both).partitions


def test_session_keyed_by_name_moves_to_ids() -> None:
    """When the last partition without an id gets one, the next plan opens a session by id."""
    session = opened({A0: at(0, ID_A), B0: at(0)})

    assert not session.plan({}).uses_topic_ids
    plan = session.plan({B0: at(0, ID_B)})

    assert (True, True, (7, 0)) == (plan.uses_topic_ids, plan.full, pair(plan))
    assert [A0, B0] == list(plan.send)


def test_session_keyed_by_id_moves_to_names() -> None:
    """A partition without an id opens a session by name, and its forgetting one by id again."""
    session = opened({A0: at(0, ID_A)})
    plan = session.plan({B0: at(0)})

    assert (False, (7, 0)) == (plan.uses_topic_ids, pair(plan))
    session.accept(plan, good(plan, 8))
    plan = session.plan({B0: None})

    assert (True, (8, 0), {A0: at(0, ID_A)}) == (plan.uses_topic_ids, pair(plan), plan.send)


def test_partitions_without_id_are_counted_through_forgets() -> None:
    """The move to ids comes with the last partition that had none, forgotten or not before."""
    session = opened({A0: at(0), B0: at(0)})
    exchange(session, {B0: None})

    assert session.plan({A0: at(0, ID_A)}).uses_topic_ids


def test_partitions_without_id_are_counted_through_full_fetches() -> None:
    """A second full fetch over the same partitions does not count them twice."""
    session = opened({A0: at(0)})
    session.reject(session.plan({}), "reset")
    exchange(session, {})

    assert session.plan({A0: at(0, ID_A)}).uses_topic_ids


def test_full_fetch_ends_the_keys_of_the_session_before() -> None:
    """What a full fetch left out is a stranger in the new session's replies."""
    session = opened({A0: at(0), A1: at(0)})
    session.reject(session.plan({}), "reset")
    exchange(session, {A1: None}, 8)

    assert not session.accept(
        session.plan({}), SessionReply(session_id=8, partitions=[A1])
    ).accepted


def test_last_partition_is_forgotten_in_the_sessions_own_keys() -> None:
    """Emptying a session by name stays by name, and the broker closes it: id 0 in the reply."""
    session = opened({A0: at(0)})
    plan = session.plan({A0: None})

    assert (False, False, (7, 1)) == (plan.full, plan.uses_topic_ids, pair(plan))
    outcome = session.accept(plan, SessionReply())

    assert (True, SessionEvent.CLOSED_BY_BROKER) == (outcome.accepted, outcome.event)
    assert ({}, (0, 0)) == (session.partitions, where(session))


def test_refused_and_emptied_asks_for_no_session() -> None:
    """With no partition left a refused client asks for no session, though its back-off is over."""
    session = opened({A0: at(0)}, session_id=0)
    exchange(session, {}, 0)

    assert (0, 0) == pair(session.plan({}))
    assert (0, -1) == pair(session.plan({A0: None}))


def test_nothing_wanted_asks_for_no_session() -> None:
    """A plan without partitions is (0, -1), or (id, -1) where the broker may hold a session."""
    session = opened({A0: at(0)})
    session.reject(session.plan({}), "reset")

    assert (0, -1) == pair(FetchSession().plan({}))
    assert (7, -1) == pair(session.plan({A0: None}))


def test_close_and_use_again() -> None:
    """Closing is a plan as well; once accepted nothing is held and the session starts afresh."""
    session = opened({A0: at(0)})
    plan = session.close()

    assert plan is not None
    assert ((7, -1), {}) == (pair(plan), plan.send)
    assert {A0: at(0)} == session.partitions
    assert SessionEvent.CLOSED == session.accept(plan, SessionReply()).event
    assert None is session.close()
    assert (0, 0) == pair(session.plan({B0: at(0)}))


def test_close_may_be_tried_again() -> None:
    """A close that got no reply leaves a session that can still be closed, or replaced."""
    session = opened({A0: at(0)})
    plan = session.close()

    assert plan is not None
    session.reject(plan, "reset")

    assert (7, -1) == pair(session.close())
    assert (7, 0) == pair(session.plan({}))


@pytest.mark.parametrize("error", [70, 71, 106, -1])
def test_full_plan_after_an_error_carries_everything(error: int) -> None:
    """After an error the next plan is full: all that was acknowledged, under the caller's changes.

    Forgotten partitions stay out, new ones are in, altered ones are at their new positions.
    """
    session = opened({A0: at(0), A1: at(0), B0: at(0)})
    changes = {A1: None, B0: at(5), B1: at(0)}
    outcome = session.accept(session.plan(changes), SessionReply(error=error))
    plan = session.plan(changes)

    assert not outcome.accepted
    assert plan.full
    assert [(A0, at(0)), (B0, at(5)), (B1, at(0))] == list(plan.send.items())


def test_lost_reply_replaces_the_session() -> None:
    """After a lost reply nobody knows the epoch: close the session and open another."""
    session = opened({A0: at(0)})
    outcome = session.reject(session.plan({A0: at(1)}), OSError("connection reset"))

    assert (False, SessionEvent.REJECTED, "connection reset") == (
        outcome.accepted,
        outcome.event,
        outcome.problem,
    )
    assert SessionState.DOUBT == session.state
    assert ((7, 0), {A0: at(1)}) == (
        pair(session.plan({A0: at(1)})),
        session.plan({A0: at(1)}).send,
    )


def test_throttled_full_reply_is_no_refusal() -> None:
    """A full fetch answered by a throttle time alone is repeated at once as (0, 0) (KIP-219)."""
    session = FetchSession()
    outcome = session.accept(session.plan({A0: at(0)}), SessionReply(throttle_ms=9))

    assert (False, SessionEvent.THROTTLED_FULL) == (outcome.accepted, outcome.event)
    assert (0, 0) == pair(session.plan({A0: at(0)}))


def test_throttled_full_reply_with_partitions_counts() -> None:
    """A throttle time beside data changes nothing."""
    session = FetchSession()
    plan = session.plan({A0: at(0)})

    assert SessionEvent.OPENED == session.accept(plan, good(plan, 7, throttle_ms=9)).event


def test_throttled_incremental_reply_counts() -> None:
    """The broker counts a request before it throttles it, so the epoch advances here too."""
    session = opened({A0: at(0)})
    reply = SessionReply(session_id=7, throttle_ms=9)
    outcome = session.accept(session.plan({A0: at(5)}), reply)

    assert (SessionEvent.CONTINUED, (7, 2)) == (outcome.event, where(session))
    assert {A0: at(5)} == session.partitions


def test_empty_incremental_reply_counts() -> None:
    """Nothing new is not a reason to start again."""
    session = opened({A0: at(0)})
    session.accept(session.plan({}), SessionReply(session_id=7))

    assert (7, 2) == pair(session.plan({}))


def test_epoch_wraps_to_one() -> None:
    """After 2147483647 comes 1: 0 would ask for a new session; -1 stays."""
    last = FetchMetadata(session_id=7, epoch=EPOCH_MAX)

    assert FetchMetadata(session_id=7, epoch=1) == last.next_incremental()
    assert [-1, 1, 2] == [next_epoch(-1), next_epoch(0), next_epoch(1)]


def test_strange_partitions_and_ids_make_a_reply_invalid() -> None:
    """A partition that was not asked for, or a topic id never heard of, is named in the problem."""
    session = opened({A0: at(0, ID_A)})
    reply = SessionReply(session_id=7, partitions=[(ID_A, 0), (ID_A, 1), (ID_B, 0)])
    outcome = session.accept(session.plan({}), reply)

    assert f"(extra: {ID_A}-1; extra topic ids: {ID_B}-0)" in outcome.problem
    assert ({}, (7, 0)) == (outcome.partitions, where(session))


def test_long_problem_is_cut() -> None:
    """A problem names five partitions and counts the others."""
    session = FetchSession()
    plan = session.plan({TopicPartition("t", i): at(0) for i in range(1000)})

    assert "t-4 and 995 more" in session.accept(plan, SessionReply(session_id=7)).problem


def test_forgotten_partition_is_a_stranger_at_once() -> None:
    """A reply may not name what its own request forgot."""
    session = opened({A0: at(0), A1: at(0)})
    plan = session.plan({A1: None})

    assert not session.accept(plan, SessionReply(session_id=7, partitions=[A1])).accepted


def test_partition_twice_in_a_reply_is_one() -> None:
    """A duplicate is neither an error nor a second partition."""
    session = FetchSession()
    plan = session.plan({A0: at(0, ID_A)})
    outcome = session.accept(plan, good(plan, 7, more=[(ID_A, 0)]))

    assert (SessionEvent.OPENED, {(ID_A, 0): A0}) == (outcome.event, outcome.partitions)


def test_negative_session_id_is_none() -> None:
    """An id below 0 counts as no session: no broker uses one."""
    session = FetchSession()

    assert SessionEvent.REFUSED == exchange(session, {A0: at(0)}, session_id=-5).event


def test_refused_session_is_asked_for_with_back_off() -> None:
    """After a refusal fetches are (0, -1), and (0, 0) comes after 1, 2, 4, … at most 64 of them."""
    session = FetchSession()
    asked, events = [], []
    for number in range(1 + 1 + 1 + 2 + 1 + 4 + 1 + 8 + 1 + 16 + 1 + 32 + 1 + 64 + 1 + 64 + 1):
        plan = session.plan({A0: at(number)})
        asked += [number] * (pair(plan) == (0, 0))
        events.append(session.accept(plan, good(plan, 0)).event)

    waits = [after - before - 1 for before, after in pairwise(asked)]
    assert [1, 2, 4, 8, 16, 32, 64, 64] == waits
    assert (9, sum(waits)) == (
        events.count(SessionEvent.REFUSED),
        events.count(SessionEvent.SESSIONLESS),
    )


def test_lost_sessionless_fetch_does_not_shorten_the_wait() -> None:
    """Only answered fetches count, so a flapping connection does not make a client ask."""
    session = FetchSession()
    exchange(session, {A0: at(0)}, session_id=0)
    for _ in range(5):
        session.reject(session.plan({}), "reset")

    assert (0, -1) == pair(session.plan({}))
