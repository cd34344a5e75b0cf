"""Where a partition is read: the rules of moves between leader and follower."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.fetch import replicas
from kfetch.fetch.replicas import ReplicaChoice
from kfetch.model import Broker, Leader

PERIOD_S = 30.0
NOW = 1000.0
ONE, TWO, THREE = (Broker(node_id=n, host="h", port=n) for n in (1, 2, 3))
LEADER = Leader(broker=ONE, epoch=5)


def at_leader(until: float = NOW + 10, leader: Leader = LEADER) -> ReplicaChoice:
    return ReplicaChoice(leader=leader, until=until)


def at(follower: Broker, until: float = NOW + 10, leader: Leader = LEADER) -> ReplicaChoice:
    return ReplicaChoice(leader=leader, follower=follower, until=until)


FRESH = NOW + PERIOD_S

NEXT = [
    # choice before, event, choice after
    (None, ("redirected", TWO), at(TWO, FRESH)),
    (at(TWO), ("redirected", THREE), at(THREE, FRESH)),
    (at_leader(), ("redirected", TWO), at_leader()),  # an answer to an older question
    (at_leader(NOW), ("redirected", TWO), at(TWO, FRESH)),
    (at_leader(), ("forced", TWO), at(TWO, FRESH)),
    (None, ("kept",), at_leader(FRESH)),
    (at(TWO), ("kept",), at_leader(FRESH)),
    (None, ("left", TWO), at_leader(FRESH)),
    (at(TWO), ("left", TWO), at_leader(FRESH)),
    (at_leader(), ("left", TWO), at_leader(FRESH)),
    (at(THREE), ("left", TWO), at(THREE)),  # the leader has named another one since
    (at(THREE, NOW), ("left", TWO), at_leader(FRESH)),
]


def after(choice: ReplicaChoice | None, event: Any, leader: Leader, now: float) -> Any:
    """The choice after an event."""
    kind, *follower = event
    if kind in ("redirected", "forced"):
        return replicas.redirected(
            choice, leader, *follower, now=now, period_s=PERIOD_S, forced=kind == "forced"
        )
    change = {"kept": replicas.kept, "left": replicas.left}[kind]
    return change(choice, leader, *follower, now=now, period_s=PERIOD_S)


@pytest.mark.parametrize(("choice", "event", "expected"), NEXT)
def test_events(choice: Any, event: Any, expected: Any) -> None:
    """Each event has one next choice; a choice of now counts for a whole period."""
    assert expected == after(choice, event, LEADER, NOW)


@pytest.mark.parametrize("event", [event for _, event, _ in NEXT])
def test_a_deposed_leader_decides_nothing(event: Any) -> None:
    """What a leader of an older epoch said changes no choice of its successor."""
    choice = at(TWO, leader=Leader(broker=THREE, epoch=6))

    assert choice == after(choice, event, LEADER, NOW)


@pytest.mark.parametrize(
    ("leader", "now", "holds"),
    [
        (LEADER, NOW, True),
        (LEADER, NOW + 9.9, True),
        (LEADER, NOW + 10, False),
        (Leader(broker=ONE, epoch=6), NOW, False),
        (Leader(broker=TWO, epoch=5), NOW, False),
        (Leader(broker=Broker(node_id=1, host="elsewhere", port=7), epoch=5), NOW, True),
    ],
)
def test_how_long_a_choice_holds(leader: Leader, now: float, holds: bool) -> None:
    """A choice holds until its end, and for the leader that made it, wherever that one listens."""
    assert holds is at(TWO).holds(leader, now)


EVENTS = st.one_of(
    st.tuples(st.just("redirected"), st.sampled_from([TWO, THREE])),
    st.tuples(st.just("kept")),
    st.tuples(st.just("left"), st.sampled_from([TWO, THREE])),
)
STORY = st.lists(st.tuples(st.floats(0, 20), st.integers(0, 2), EVENTS), max_size=60)


@given(STORY)
def test_no_flip_flop(story: list[Any]) -> None:
    """After a partition has left a follower, it stays at the same leader for a whole period."""
    choice: ReplicaChoice | None = None
    now, left_at = NOW, {}
    for pause_s, epoch, event in story:
        now += pause_s
        leader = Leader(broker=ONE, epoch=epoch)
        before = choice
        choice = after(choice, event, leader, now)
        if choice is not None and choice.follower and choice != before:
            assert now >= left_at.get(epoch, 0.0) + PERIOD_S
        if event[0] == "left" and choice != before:
            left_at[epoch] = now


@given(STORY)
def test_each_choice_ends(story: list[Any]) -> None:
    """No choice lasts longer than a period after the last event: then the leader is asked again."""
    choice: ReplicaChoice | None = None
    now = NOW
    for pause_s, epoch, event in story:
        now += pause_s
        leader = Leader(broker=ONE, epoch=epoch)
        choice = after(choice, event, leader, now)
        assert choice is not None
        assert not choice.holds(choice.leader, now + PERIOD_S)


@given(STORY)
def test_epochs_of_choices_grow(story: list[Any]) -> None:
    """The choice never falls back to an older leader's."""
    choice: ReplicaChoice | None = None
    now = NOW
    for pause_s, epoch, event in story:
        now += pause_s
        before = choice
        choice = after(choice, event, Leader(broker=ONE, epoch=epoch), now)
        assert choice is not None
        assert before is None or choice.leader.epoch >= before.leader.epoch
