"""Every row of the transition table, told a second time and by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from kfetch.session.session import FetchSession
from kfetch.session.transitions import (
    REPLIES,
    REQUESTS,
    ROWS,
    Answer,
    Event,
    Need,
    Request,
    State,
    diagram,
    edges,
)
from kfetch.session.values import FetchPlan, SessionReply, SessionStats
from tests.kfetch.session.helpers import A0, ID_A, at, exchange, good, opened, pair, where

Made = tuple[FetchSession, FetchPlan]


def first() -> Made:
    session = FetchSession()
    return session, session.plan({A0: at(0)})


def orphaned() -> Made:
    session = FetchSession(orphan=7)
    return session, session.plan({A0: at(0)})


def rekeyed() -> Made:
    session = opened({A0: at(0)})
    return session, session.plan({A0: at(0, ID_A)})


def incremental() -> Made:
    session = opened({A0: at(0)})
    return session, session.plan({A0: at(1)})


def refused() -> Made:
    session = opened({A0: at(0)}, session_id=0)
    return session, session.plan({A0: at(1)})


def asking_again() -> Made:
    session = opened({A0: at(0)}, session_id=0)
    exchange(session, {}, 0)
    return session, session.plan({A0: at(1)})


def closing() -> Made:
    session = opened({A0: at(0)})
    plan = session.close()
    assert plan
    return session, plan


MAKERS: dict[Callable[[], Made], tuple[int, int]] = {
    first: (0, 0),
    orphaned: (7, 0),
    rekeyed: (7, 0),
    incremental: (7, 1),
    refused: (0, -1),
    asking_again: (0, 0),
    closing: (7, -1),
}

REPLIED: dict[Answer, Callable[[FetchPlan], SessionReply]] = {
    Answer.NOT_FOUND: lambda plan: SessionReply(error=70),
    Answer.WRONG_EPOCH: lambda plan: SessionReply(error=71),
    Answer.WRONG_KEYS: lambda plan: SessionReply(error=106),
    Answer.FAILED: lambda plan: SessionReply(error=-1, session_id=9),
    Answer.THROTTLED: lambda plan: SessionReply(throttle_ms=1),
    Answer.INVALID: lambda plan: good(plan, 9, more=[("stranger", 0)]),
    Answer.WITHOUT_ID: lambda plan: good(plan, 0),
    Answer.WITH_ID: lambda plan: good(plan, 9),
}

LOST, EPOCH, KEYS, OTHER = (
    Event.LOST,
    Event.EPOCH_MISMATCH,
    Event.TOPIC_ID_ERROR,
    Event.OTHER_ERROR,
)
# For each kind of request: answer -> (session id and epoch afterwards, accepted, event).
NEW_SESSION = {
    Answer.NO_REPLY: ((0, 0), False, Event.REJECTED),
    Answer.NOT_FOUND: ((0, 0), False, LOST),
    Answer.WRONG_EPOCH: ((0, 0), False, EPOCH),
    Answer.WRONG_KEYS: ((0, 0), False, KEYS),
    Answer.FAILED: ((0, 0), False, OTHER),
    Answer.THROTTLED: ((0, 0), False, Event.THROTTLED_FULL),
    Answer.INVALID: ((0, 0), False, Event.INVALID_REPLY),
    Answer.WITHOUT_ID: ((0, -1), True, Event.REFUSED),
    Answer.WITH_ID: ((9, 1), True, Event.OPENED),
}
REPLACED = {
    **NEW_SESSION,
    Answer.NO_REPLY: ((7, 0), False, Event.REJECTED),
    Answer.WRONG_EPOCH: ((7, 0), False, EPOCH),
    Answer.WRONG_KEYS: ((7, 0), False, KEYS),
    Answer.FAILED: ((7, 0), False, OTHER),
}
EXPECTED = {
    first: NEW_SESSION,
    asking_again: NEW_SESSION,
    orphaned: REPLACED,
    rekeyed: REPLACED,
    incremental: {
        Answer.NO_REPLY: ((7, 0), False, Event.REJECTED),
        Answer.NOT_FOUND: ((0, 0), False, LOST),
        Answer.WRONG_EPOCH: ((7, 0), False, EPOCH),
        Answer.WRONG_KEYS: ((7, 0), False, KEYS),
        Answer.FAILED: ((7, 0), False, OTHER),
        Answer.INVALID: ((7, 0), False, Event.INVALID_REPLY),
        Answer.WITHOUT_ID: ((0, 0), True, Event.CLOSED_BY_BROKER),
        Answer.WITH_ID: ((7, 2), True, Event.CONTINUED),  # whatever id the reply has
    },
    refused: {
        Answer.NO_REPLY: ((0, -1), False, Event.REJECTED),
        Answer.NOT_FOUND: ((0, -1), False, LOST),
        Answer.WRONG_EPOCH: ((0, -1), False, EPOCH),
        Answer.WRONG_KEYS: ((0, -1), False, KEYS),
        Answer.FAILED: ((0, -1), False, OTHER),
        Answer.THROTTLED: ((0, -1), False, Event.THROTTLED_FULL),
        Answer.INVALID: ((0, -1), False, Event.INVALID_REPLY),
        Answer.WITHOUT_ID: ((0, -1), True, Event.SESSIONLESS),
        Answer.WITH_ID: ((9, 1), True, Event.OPENED),
    },
    closing: {
        Answer.NO_REPLY: ((7, 0), False, Event.REJECTED),
        Answer.NOT_FOUND: ((0, 0), True, Event.CLOSED),
        Answer.WRONG_EPOCH: ((7, 0), False, EPOCH),
        Answer.WRONG_KEYS: ((7, 0), False, KEYS),
        Answer.FAILED: ((7, 0), False, OTHER),
        Answer.THROTTLED: ((0, 0), True, Event.CLOSED),
        Answer.INVALID: ((0, 0), True, Event.CLOSED),
        Answer.WITHOUT_ID: ((0, 0), True, Event.CLOSED),
        Answer.WITH_ID: ((0, 0), True, Event.CLOSED),
    },
}
CASES = [(make, answer) for make, answers in EXPECTED.items() for answer in answers]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_each_kind_of_request_carries_its_pair(make: Callable[[], Made]) -> None:
    """Every way to a request leads to the session id and epoch that KIP-227 gives it."""
    _, plan = make()

    assert MAKERS[make] == pair(plan)


@pytest.mark.parametrize(
    ("make", "answer"), CASES, ids=[f"{make.__name__}-{answer.name}" for make, answer in CASES]
)
def test_row(make: Callable[[], Made], answer: Answer) -> None:
    """Request and class of reply decide the next pair, whether it counts, and the event."""
    session, plan = make()
    before = dict(session.partitions)
    if answer is Answer.NO_REPLY:
        outcome = session.reject(plan, "timed out")
    else:
        outcome = session.accept(plan, REPLIED[answer](plan))

    assert EXPECTED[make][answer] == (where(session), outcome.accepted, outcome.event)
    assert (dict(plan.send) if outcome.accepted else before) == session.partitions
    assert bool(outcome.problem) is not outcome.accepted


def test_cases_reach_every_row() -> None:
    """No row of the table is without a case by hand."""
    reached = {(make()[1].request, answer) for make, answer in CASES}

    assert set(REPLIES) == reached


def test_table_is_total() -> None:
    """Each request has one row for each answer; only an incremental one is never THROTTLED."""
    pairs = {(request, answer) for request in Request for answer in Answer}

    assert pairs - {(Request.CONTINUE, Answer.THROTTLED)} == set(REPLIES)
    assert len(ROWS) == len(REPLIES)


def test_requests_are_total() -> None:
    """Every state can fetch, can be emptied, and can be closed if the broker may hold a session."""
    with_id = {State.SESSION, State.DOUBT}

    assert set(State) == {state for state, need in REQUESTS if need is Need.FETCH}
    assert set(State) == {state for state, need in REQUESTS if need is Need.EMPTY}
    assert with_id == {state for state, need in REQUESTS if need is Need.CLOSE}


def test_stats_have_a_counter_for_each_event() -> None:
    """SessionStats and Event name the same things."""
    assert [event.value for event in Event] == list(SessionStats.__dataclass_fields__)


def test_diagram_shows_every_edge() -> None:
    """The diagram is drawn from the tables: one line for each edge, with all its events."""
    lines = diagram().splitlines()

    assert "stateDiagram-v2" == lines[0]
    assert len(edges()) + len(State) + 2 == len(lines)
    assert "    SESSION --> NONE : CONTINUE → LOST, CLOSED_BY_BROKER" in lines


def test_module_prints_the_diagram() -> None:
    """``python -m kfetch.session.transitions`` prints the diagram and nothing else."""
    command = [sys.executable, "-X", "utf8", "-m", "kfetch.session.transitions"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)

    assert (diagram() + "\n", "") == (done.stdout, done.stderr)
