"""Every move of a session, written a second time by hand."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from itertools import product

import pytest

from kfetch.session import transitions
from kfetch.session.plan import FetchPlan
from kfetch.session.replies import SessionReply
from kfetch.session.session import FetchSession
from kfetch.session.transitions import (
    MOVES,
    RequestKind,
    SessionEvent,
    SessionState,
    can_close,
    reply_event,
)
from tests.kfetch.session.helpers import A0, ID_A, at, exchange, good, opened, pair, where
from tools.session_moves import arrows, edges, requests_of, table

SessionAndPlan = tuple[FetchSession, FetchPlan]


def first() -> SessionAndPlan:
    session = FetchSession()
    return session, session.plan({A0: at(0)})


def doubtful() -> SessionAndPlan:
    session = opened({A0: at(0)})
    session.reject(session.plan({A0: at(1)}), "timed out")
    return session, session.plan({A0: at(1)})


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
    doubtful: (7, 0),
    rekeyed: (7, 0),
    incremental: (7, 1),
    refused: (0, -1),
    asking_again: (0, 0),
    closing: (7, -1),
}

Reply = Callable[[FetchPlan], SessionReply]


def not_found(plan: FetchPlan) -> SessionReply:
    return SessionReply(error=70)


def wrong_epoch(plan: FetchPlan) -> SessionReply:
    return SessionReply(error=71)


def wrong_keys(plan: FetchPlan) -> SessionReply:
    return SessionReply(error=106)


def failed(plan: FetchPlan) -> SessionReply:
    return SessionReply(error=-1, session_id=9)


def throttled(plan: FetchPlan) -> SessionReply:
    return SessionReply(throttle_ms=1)


def invalid(plan: FetchPlan) -> SessionReply:
    return good(plan, 9, more=[("stranger", 0)])


def without_id(plan: FetchPlan) -> SessionReply:
    return good(plan, 0)


def negative_id(plan: FetchPlan) -> SessionReply:
    return good(plan, -5)


def with_id(plan: FetchPlan) -> SessionReply:
    return good(plan, 9)


NO_REPLY = None
Expected = dict[Reply | None, tuple[tuple[int, int], bool, SessionEvent]]


def failures(after: tuple[int, int]) -> Expected:
    """Returns the moves of a lost reply and of the errors without an own rule."""
    return {
        NO_REPLY: (after, False, SessionEvent.REJECTED),
        wrong_epoch: (after, False, SessionEvent.EPOCH_MISMATCH),
        wrong_keys: (after, False, SessionEvent.TOPIC_ID_ERROR),
        failed: (after, False, SessionEvent.OTHER_ERROR),
    }


OPENING: Expected = {
    not_found: ((0, 0), False, SessionEvent.LOST),
    throttled: ((0, 0), False, SessionEvent.THROTTLED_FULL),
    invalid: ((0, 0), False, SessionEvent.INVALID_REPLY),
    without_id: ((0, -1), True, SessionEvent.REFUSED),
    negative_id: ((0, -1), True, SessionEvent.REFUSED),
    with_id: ((9, 1), True, SessionEvent.OPENED),
}
CLOSED = ((0, 0), True, SessionEvent.CLOSED)
# For each kind of request: reply -> (session id and epoch afterwards, accepted, event).
EXPECTED: dict[Callable[[], SessionAndPlan], Expected] = {
    first: OPENING | failures((0, 0)),
    asking_again: OPENING | failures((0, 0)),
    doubtful: OPENING | failures((7, 0)),
    rekeyed: OPENING | failures((7, 0)),
    incremental: {
        **failures((7, 0)),
        not_found: ((0, 0), False, SessionEvent.LOST),
        invalid: ((7, 0), False, SessionEvent.INVALID_REPLY),
        without_id: ((0, 0), True, SessionEvent.CLOSED_BY_BROKER),
        negative_id: ((0, 0), True, SessionEvent.CLOSED_BY_BROKER),
        with_id: ((7, 2), True, SessionEvent.CONTINUED),  # whatever id the reply has
    },
    refused: {
        **failures((0, -1)),
        not_found: ((0, -1), False, SessionEvent.LOST),
        throttled: ((0, -1), False, SessionEvent.THROTTLED_FULL),
        invalid: ((0, -1), False, SessionEvent.INVALID_REPLY),
        without_id: ((0, -1), True, SessionEvent.SESSIONLESS),
        negative_id: ((0, -1), True, SessionEvent.SESSIONLESS),
        with_id: ((9, 1), True, SessionEvent.OPENED),
    },
    closing: {
        **failures((7, 0)),
        not_found: CLOSED,
        throttled: CLOSED,
        invalid: CLOSED,
        without_id: CLOSED,
        negative_id: CLOSED,
        with_id: CLOSED,
    },
}
CASES = [(make, reply) for make, rows in EXPECTED.items() for reply in rows]


@pytest.mark.parametrize("make", PAIR_BY_MAKER, ids=lambda make: make.__name__)
def test_each_kind_of_request_carries_its_pair(make: Callable[[], SessionAndPlan]) -> None:
    """Every way to a request leads to the session id and epoch that KIP-227 gives it."""
    _, plan = make()

    assert PAIR_BY_MAKER[make] == pair(plan)


@pytest.mark.parametrize(
    ("make", "reply"),
    CASES,
    ids=[f"{make.__name__}-{reply.__name__ if reply else 'no_reply'}" for make, reply in CASES],
)
def test_move(make: Callable[[], SessionAndPlan], reply: Reply | None) -> None:
    """The kinds of request and reply decide the next pair, whether it counts, and the event."""
    session, plan = make()
    before = dict(session.partitions)
    outcome = session.accept(plan, reply(plan)) if reply else session.reject(plan, "timed out")

    assert EXPECTED[make][reply] == (where(session), outcome.accepted, outcome.event)
    assert (dict(plan.send) if outcome.accepted else before) == session.partitions
    assert bool(outcome.problem) is not outcome.accepted


def test_cases_reach_every_move() -> None:
    """Every move has a case here."""
    reached = {(make()[1].request, EXPECTED[make][reply][2]) for make, reply in CASES}

    assert {(request, event) for request, moves in MOVES.items() for event in moves} == reached


@pytest.mark.parametrize("kind", RequestKind)
def test_every_reply_has_its_move(kind: RequestKind) -> None:
    """Each reply that a broker can send has a move, and each move has a reply."""
    replies = product((0, -1, 1, 70, 71, 106), (-5, 0, 9), (False, True), (False, True))
    events = {
        reply_event(kind, error=error, session_id=number, only_throttled=throttled, valid=valid)
        for error, number, throttled, valid in replies
    }

    assert events | {SessionEvent.REJECTED} == set(MOVES[kind])


def test_table_has_each_move_once() -> None:
    """No move of the table's source hides another one of the same request and event."""
    source = ast.parse(inspect.getsource(transitions))
    (table,) = (
        node.value
        for node in source.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "MOVES"
    )
    assert isinstance(table, ast.Dict)
    starred = len(transitions._DOUBTFUL)  # ``**`` adds these moves to each request

    assert len(RequestKind) == len(table.keys)
    assert [len(moves) for moves in MOVES.values()] == [
        len(moves.keys) - 1 + starred for moves in table.values if type(moves) is ast.Dict
    ]


@pytest.mark.parametrize("state", SessionState)
def test_only_a_session_is_closed_or_continued(state: SessionState) -> None:
    """Every state can open a session. CLOSE and CONTINUE name one that the broker may hold."""
    with_id = state in (SessionState.SESSION, SessionState.DOUBT)

    assert with_id is can_close(state)
    assert with_id is (RequestKind.CLOSE in requests_of(state))
    assert (state is SessionState.SESSION) is (RequestKind.CONTINUE in requests_of(state))
    assert RequestKind.OPEN in requests_of(state)


def test_table_shows_every_move_to_another_state() -> None:
    """The table comes from the moves: all edges but those that stay in their state."""
    moves = {
        (before, after, request): events
        for (before, after), requests in arrows().items()
        for request, events in requests.items()
    }

    assert {edge: events for edge, events in edges().items() if edge[0] is not edge[1]} == moves
    assert len(arrows()) + 2 == len(table().splitlines())
    assert "| SESSION | NONE | OPEN: LOST" in table()
    assert "<br>CONTINUE: LOST, CLOSED_BY_BROKER<br>CLOSE: CLOSED |" in table()
