"""The contract of a fetch session: plans are pure, each has one answer, changes set the cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from kfetch.model import FetchPosition, TopicPartition
from kfetch.session.plan import SessionUsageError
from kfetch.session.replies import SessionReply
from kfetch.session.session import FetchSession
from tests.kfetch.session.helpers import A0, A1, B0, ID_A, ID_NEW, at, exchange, good, opened


def test_plan_is_answered_once() -> None:
    """Accepting or rejecting a plan a second time raises SessionUsageError."""
    session = FetchSession()
    plan = session.plan({A0: at(0)})
    session.accept(plan, good(plan, 7))

    with pytest.raises(SessionUsageError, match="answered before"):
        session.accept(plan, good(plan, 7))
    with pytest.raises(SessionUsageError, match="answered before"):
        session.reject(plan, "late")


def test_of_two_plans_one_is_answered() -> None:
    """Planning twice is free, but the first answer makes the other plan stale."""
    session = opened({A0: at(0)})
    one, other = session.plan({A0: at(1)}), session.plan({A0: at(2)})
    session.accept(one, SessionReply(session_id=7))

    with pytest.raises(SessionUsageError, match="another one was"):
        session.accept(other, SessionReply(session_id=7))


def test_plan_of_another_session_is_refused() -> None:
    """Two brokers' sessions cannot be mixed up."""
    plan = FetchSession().plan({A0: at(0)})

    with pytest.raises(SessionUsageError, match="another session's"):
        FetchSession().accept(plan, good(plan, 7))


@pytest.mark.parametrize(("version", "position"), [(12, at(0, ID_A)), (13, at(0))])
def test_version_must_follow_the_plan(version: int, position: FetchPosition) -> None:
    """Names up to Fetch v12, ids from v13 on: the other kind raises SessionUsageError."""
    session = FetchSession()
    plan = session.plan({A0: position})

    with pytest.raises(SessionUsageError, match=f"sent as v{version}"):
        session.accept(plan, replace(good(plan, 7), version=version))


def test_two_names_for_one_topic_id_are_refused() -> None:
    """A reply by id would be ambiguous, so such a plan raises SessionUsageError."""
    with pytest.raises(SessionUsageError, match="share one topic id"):
        FetchSession().plan({A0: at(0, ID_A), B0: at(0, ID_A)})
    with pytest.raises(SessionUsageError, match="share one topic id"):
        opened({A0: at(0, ID_A)}).plan({B0: at(0, ID_A)})


def test_plan_is_pure_and_frozen() -> None:
    """Planning changes nothing, equal changes give equal plans, and plans cannot be changed."""
    session = opened({A0: at(0)})
    before = repr(session), dict(session.partitions), dict(session.event_counts)
    plan = session.plan({A0: at(1), B0: at(0)})

    assert plan == session.plan({A0: at(1), B0: at(0)})
    assert before == (repr(session), dict(session.partitions), dict(session.event_counts))
    with pytest.raises(FrozenInstanceError):
        plan.forget = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        plan.send[A1] = at(0)  # type: ignore[index]


def test_partitions_is_a_live_read_only_view() -> None:
    """A view taken early shows what is acknowledged later, also across a full fetch."""
    session = FetchSession()
    view = session.partitions
    exchange(session, {A0: at(0)})

    assert {A0: at(0)} == view
    with pytest.raises(TypeError):
        view[A1] = at(0)  # type: ignore[index]


def test_repr_shows_the_state() -> None:
    """The repr has state, pair, size, keys, counters that moved and the last problem."""
    session = opened({A0: at(0)})
    session.reject(session.plan({}), "timed out")

    assert (
        "<FetchSession DOUBT (id 7, epoch 0): 1 partitions by topic name,"
        " opened 1, rejected 1, last problem: timed out>"
    ) == repr(session)


class Counted(dict[TopicPartition, FetchPosition]):
    """A dict that counts how many of its entries a caller reads."""

    touched = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.touched += 1
        return super().get(key, default)

    def __getitem__(self, key: TopicPartition) -> FetchPosition:
        self.touched += 1
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.touched += 1
        return super().__contains__(key)

    def __iter__(self) -> Iterator[TopicPartition]:
        self.touched += len(self)
        return super().__iter__()

    def keys(self) -> Any:
        self.touched += len(self)
        return super().keys()

    def values(self) -> Any:
        self.touched += len(self)
        return super().values()

    def items(self) -> Any:
        self.touched += len(self)
        return super().items()


def counting(session: FetchSession) -> tuple[Counted, Counted]:
    """Put counting dicts into the session."""
    partitions: Any = session._partitions
    partitions.positions = Counted(partitions.positions)
    partitions.keys = Counted(partitions.keys)
    partitions.positions.touched = partitions.keys.touched = 0
    return partitions.positions, partitions.keys


def test_cost_follows_the_changes() -> None:
    """In a session of 10,000 partitions, 3 changes touch a dozen entries, from plan to accept."""
    many = {TopicPartition("t", index): at(0, ID_A) for index in range(10_000)}
    session = opened(many)
    positions, keys = counting(session)
    first, second, third = list(many)[:3]
    plan = session.plan({first: at(1, ID_A), second: None, third: at(0, ID_NEW)})
    session.accept(plan, SessionReply(session_id=7, partitions=[(ID_NEW, 2), (ID_A, 5)]))

    assert [first, third] == list(plan.send)
    assert [(ID_A, second), (ID_A, third)] == list(plan.forget)
    assert positions.touched <= 5 * 3
    assert keys.touched <= 5 * 3


def test_counting_dict_sees_a_walk() -> None:
    """The instrument works: a full plan touches every entry."""
    session = opened({TopicPartition("t", index): at(0) for index in range(100)})
    positions, _ = counting(session)
    session.reject(session.plan({}), "reset")
    session.plan({})

    assert positions.touched >= 100
