"""Every row of the transition table, written a second time by hand."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable

import pytest

from kfetch.session import transitions
from kfetch.session.session import FetchSession
from kfetch.session.transitions import (
    REQUEST_KINDS,
    TRANSITIONS,
    Purpose,
    ReplyClass,
    RequestKind,
    SessionEvent,
    SessionState,
    diagram,
    edges,
)
from kfetch.session.values import FetchPlan, SessionReply, SessionStats
from tests.kfetch.session.helpers import A0, ID_A, at, exchange, good, opened, pair, where

SessionAndPlan = tuple[FetchSession, FetchPlan]


def first() -> SessionAndPlan:
    session = FetchSession()
    return session, session.plan({A0: at(0)})


def orphaned() -> SessionAndPlan:
    session = FetchSession(orphan=7)
    return session, session.plan({A0: at(0)})


def rekeyed() -> SessionAndPlan:
    session = opened({A0: at(0)})
    return session, session.plan({A0: at(0, ID_A)})


def incremental() -> SessionAndPlan:
    session = opened({A0: at(0)})
    return session, session.plan({A0: at(1)})


def refused() -> SessionAndPlan:
    session = opened({A0: at(0)}, session_id=0)
    return session, session.plan({A0: at(1)})


def asking_again() -> SessionAndPlan:
    session = opened({A0: at(0)}, session_id=0)
    exchange(session, {}, 0)
    return session, session.plan({A0: at(1)})


def closing() -> SessionAndPlan:
    session = opened({A0: at(0)})
    plan = session.close()
    assert plan
    return session, plan


PAIR_BY_MAKER: dict[Callable[[], SessionAndPlan], tuple[int, int]] = {
    first: (0, 0),
    orphaned: (7, 0),
    rekeyed: (7, 0),
    incremental: (7, 1),
    refused: (0, -1),
    asking_again: (0, 0),
    closing: (7, -1),
}

REPLY_BY_CLASS: dict[ReplyClass, Callable[[FetchPlan], SessionReply]] = {
    ReplyClass.NOT_FOUND: lambda plan: SessionReply(error=70),
    ReplyClass.WRONG_EPOCH: lambda plan: SessionReply(error=71),
    ReplyClass.WRONG_KEYS: lambda plan: SessionReply(error=106),
    ReplyClass.FAILED: lambda plan: SessionReply(error=-1, session_id=9),
    ReplyClass.THROTTLED: lambda plan: SessionReply(throttle_ms=1),
    ReplyClass.INVALID: lambda plan: good(plan, 9, more=[("stranger", 0)]),
    ReplyClass.WITHOUT_ID: lambda plan: good(plan, 0),
    ReplyClass.WITH_ID: lambda plan: good(plan, 9),
}

LOST, EPOCH, KEYS, OTHER = (
    SessionEvent.LOST,
    SessionEvent.EPOCH_MISMATCH,
    SessionEvent.TOPIC_ID_ERROR,
    SessionEvent.OTHER_ERROR,
)
# For each kind of request: class of reply -> (session id and epoch afterwards, accepted, event).
NEW_SESSION = {
    ReplyClass.NO_REPLY: ((0, 0), False, SessionEvent.REJECTED),
    ReplyClass.NOT_FOUND: ((0, 0), False, LOST),
    ReplyClass.WRONG_EPOCH: ((0, 0), False, EPOCH),
    ReplyClass.WRONG_KEYS: ((0, 0), False, KEYS),
    ReplyClass.FAILED: ((0, 0), False, OTHER),
    ReplyClass.THROTTLED: ((0, 0), False, SessionEvent.THROTTLED_FULL),
    ReplyClass.INVALID: ((0, 0), False, SessionEvent.INVALID_REPLY),
    ReplyClass.WITHOUT_ID: ((0, -1), True, SessionEvent.REFUSED),
    ReplyClass.WITH_ID: ((9, 1), True, SessionEvent.OPENED),
}
REPLACED = {
    **NEW_SESSION,
    ReplyClass.NO_REPLY: ((7, 0), False, SessionEvent.REJECTED),
    ReplyClass.WRONG_EPOCH: ((7, 0), False, EPOCH),
    ReplyClass.WRONG_KEYS: ((7, 0), False, KEYS),
    ReplyClass.FAILED: ((7, 0), False, OTHER),
}
EXPECTED = {
    first: NEW_SESSION,
    asking_again: NEW_SESSION,
    orphaned: REPLACED,
    rekeyed: REPLACED,
    incremental: {
        ReplyClass.NO_REPLY: ((7, 0), False, SessionEvent.REJECTED),
        ReplyClass.NOT_FOUND: ((0, 0), False, LOST),
        ReplyClass.WRONG_EPOCH: ((7, 0), False, EPOCH),
        ReplyClass.WRONG_KEYS: ((7, 0), False, KEYS),
        ReplyClass.FAILED: ((7, 0), False, OTHER),
        ReplyClass.INVALID: ((7, 0), False, SessionEvent.INVALID_REPLY),
        ReplyClass.WITHOUT_ID: ((0, 0), True, SessionEvent.CLOSED_BY_BROKER),
        ReplyClass.WITH_ID: ((7, 2), True, SessionEvent.CONTINUED),  # whatever id the reply has
    },
    refused: {
        ReplyClass.NO_REPLY: ((0, -1), False, SessionEvent.REJECTED),
        ReplyClass.NOT_FOUND: ((0, -1), False, LOST),
        ReplyClass.WRONG_EPOCH: ((0, -1), False, EPOCH),
        ReplyClass.WRONG_KEYS: ((0, -1), False, KEYS),
        ReplyClass.FAILED: ((0, -1), False, OTHER),
        ReplyClass.THROTTLED: ((0, -1), False, SessionEvent.THROTTLED_FULL),
        ReplyClass.INVALID: ((0, -1), False, SessionEvent.INVALID_REPLY),
        ReplyClass.WITHOUT_ID: ((0, -1), True, SessionEvent.SESSIONLESS),
        ReplyClass.WITH_ID: ((9, 1), True, SessionEvent.OPENED),
    },
    closing: {
        ReplyClass.NO_REPLY: ((7, 0), False, SessionEvent.REJECTED),
        ReplyClass.NOT_FOUND: ((0, 0), True, SessionEvent.CLOSED),
        ReplyClass.WRONG_EPOCH: ((7, 0), False, EPOCH),
        ReplyClass.WRONG_KEYS: ((7, 0), False, KEYS),
        ReplyClass.FAILED: ((7, 0), False, OTHER),
        ReplyClass.THROTTLED: ((0, 0), True, SessionEvent.CLOSED),
        ReplyClass.INVALID: ((0, 0), True, SessionEvent.CLOSED),
        ReplyClass.WITHOUT_ID: ((0, 0), True, SessionEvent.CLOSED),
        ReplyClass.WITH_ID: ((0, 0), True, SessionEvent.CLOSED),
    },
}
CASES = [(make, reply_class) for make, rows in EXPECTED.items() for reply_class in rows]


@pytest.mark.parametrize("make", PAIR_BY_MAKER, ids=lambda make: make.__name__)
def test_each_kind_of_request_carries_its_pair(make: Callable[[], SessionAndPlan]) -> None:
    """Every way to a request leads to the session id and epoch that KIP-227 gives it."""
    _, plan = make()

    assert PAIR_BY_MAKER[make] == pair(plan)


@pytest.mark.parametrize(
    ("make", "reply_class"), CASES, ids=[f"{make.__name__}-{kind.name}" for make, kind in CASES]
)
def test_row(make: Callable[[], SessionAndPlan], reply_class: ReplyClass) -> None:
    """The kinds of request and reply decide the next pair, whether it counts, and the event."""
    session, plan = make()
    before = dict(session.partitions)
    if reply_class is ReplyClass.NO_REPLY:
        outcome = session.reject(plan, "timed out")
    else:
        outcome = session.accept(plan, REPLY_BY_CLASS[reply_class](plan))

    assert EXPECTED[make][reply_class] == (where(session), outcome.accepted, outcome.event)
    assert (dict(plan.send) if outcome.accepted else before) == session.partitions
    assert bool(outcome.problem) is not outcome.accepted


def test_cases_reach_every_row() -> None:
    """Every row of the table has a case here."""
    reached = {(make()[1].request, kind) for make, kind in CASES}

    assert set(TRANSITIONS) == reached


def test_table_is_total() -> None:
    """Each request has a row for each class of reply; only CONTINUE is never THROTTLED."""
    pairs = {(request, kind) for request in RequestKind for kind in ReplyClass}

    assert pairs - {(RequestKind.CONTINUE, ReplyClass.THROTTLED)} == set(TRANSITIONS)


def test_table_has_each_row_once() -> None:
    """No row of the table's source hides another one with the same request and reply."""
    source = ast.parse(inspect.getsource(transitions))
    (table,) = (
        node.value
        for node in source.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_ROWS"
    )
    assert isinstance(table, ast.Dict)

    assert len(RequestKind) == len(table.keys)
    assert len(TRANSITIONS) == sum(
        len(rows.keys) for rows in table.values if type(rows) is ast.Dict
    )


def test_requests_are_total() -> None:
    """Every state can fetch, can be emptied, and can be closed if the broker may hold a session."""
    with_id = {SessionState.SESSION, SessionState.DOUBT}

    assert set(SessionState) == {state for state, need in REQUEST_KINDS if need is Purpose.FETCH}
    assert set(SessionState) == {state for state, need in REQUEST_KINDS if need is Purpose.EMPTY}
    assert with_id == {state for state, need in REQUEST_KINDS if need is Purpose.CLOSE}


def test_stats_have_a_counter_for_each_event() -> None:
    """SessionStats and SessionEvent name the same things."""
    assert [event.value for event in SessionEvent] == list(SessionStats.__dataclass_fields__)


def test_diagram_shows_every_edge() -> None:
    """The diagram is drawn from the tables: one line for each edge, with all its events."""
    lines = diagram().splitlines()

    assert "stateDiagram-v2" == lines[0]
    assert len(edges()) + len(SessionState) + 2 == len(lines)
    assert "    SESSION --> NONE : CONTINUE → LOST, CLOSED_BY_BROKER" in lines


def test_module_prints_the_diagram() -> None:
    """``python -m kfetch.session.transitions`` prints the diagram and nothing else."""
    command = [sys.executable, "-X", "utf8", "-m", "kfetch.session.transitions"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)

    assert (diagram() + "\n", "") == (done.stdout, done.stderr)
