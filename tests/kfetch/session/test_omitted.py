"""A full reply should name every partition of its request. Some brokers omit a part of them."""

from __future__ import annotations

import pytest

from kfetch.model import FetchPosition, TopicPartition
from kfetch.session.partitions import Changes
from kfetch.session.replies import SessionReply
from kfetch.session.session import FetchSession
from kfetch.session.transitions import SessionEvent
from tests.kfetch.session.helpers import A0, A1, B0, at


def test_a_full_reply_that_omits_every_partition_is_invalid() -> None:
    """A full reply must name a partition; the problem names those it omits."""
    session = FetchSession()
    plan = session.plan({A0: at(0), A1: at(0)})
    outcome = session.accept(plan, SessionReply(session_id=7))

    assert SessionEvent.INVALID_REPLY == outcome.event
    assert "the reply's partitions are not those asked for (omitted: a-0, a-1)" == outcome.problem


@pytest.mark.parametrize(
    ("changes", "sent", "forgotten"),
    [
        ({}, {A1: at(0)}, []),
        ({A1: at(5)}, {A1: at(5)}, []),
        ({A1: None}, {}, [A1]),
        ({A0: at(3), B0: at(0)}, {A1: at(0), A0: at(3), B0: at(0)}, []),
    ],
    ids=["no change", "moved", "forgotten", "others moved"],
)
def test_omitted_partitions_are_named_again(
    changes: Changes, sent: dict[TopicPartition, FetchPosition], forgotten: list[TopicPartition]
) -> None:
    """The request after a full reply that omits partitions names these once more, as they are now.
    The broker may hold them or not."""
    session = FetchSession()
    plan = session.plan({A0: at(0), A1: at(0)})
    outcome = session.accept(plan, SessionReply(session_id=7, partitions=[A0]))
    again = session.plan(changes)
    session.accept(again, SessionReply(session_id=7))

    assert (SessionEvent.OPENED, [A0]) == (outcome.event, list(outcome.partitions.values()))
    assert (sent, forgotten) == (again.send, [tp for _, tp in again.forget])
    assert {} == session.plan({}).send
