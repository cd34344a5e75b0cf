"""Every move of a fetch session, as data: two tables and the rules they name.

``REQUESTS`` says which request a state sends for a need, ``REPLIES`` what a request's reply does to
the state. ``session`` moves (session id, epoch) through these tables and in no other way, and the
diagram in docs/fetch-sessions.md is drawn from them: ``python -m kfetch.session.transitions``.

The rows are those of Kafka's FetchSessionHandler, with two differences. A refused client goes on
without a session and asks again after a back-off, where Kafka asks with every request. And a
client with nothing to fetch asks for no session, so that it takes no slot of the broker's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from kfetch.session.metadata import INITIAL, INITIAL_EPOCH, LEGACY, FetchMetadata

FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
FETCH_SESSION_TOPIC_ID_ERROR = 106


class State(Enum):
    """Where the client stands. It is read off (id, epoch), not kept beside it."""

    NONE = "(0, 0): no session, ask for one"
    SESSION = "(id, n): incremental"
    DOUBT = "(id, 0): the broker may hold that session, at an epoch nobody knows"
    SESSIONLESS = "(0, -1): refused, full fetches for a while"


class Need(Enum):
    """What the next request is for."""

    FETCH = "fetch, with the topic keys of the session"
    REKEY = "fetch, but topics are keyed by id now instead of by name, or the other way round"
    ASK = "fetch, and the back-off after a refusal is over"
    EMPTY = "no partition is wanted any more"
    CLOSE = "the session is not wanted any more"


class Request(Enum):
    """The kinds of Fetch request; the value is the (id, epoch) it carries."""

    OPEN = "(id or 0, 0)"
    CONTINUE = "(id, n)"
    SESSIONLESS = "(0, -1)"
    CLOSE = "(id, -1)"


class Answer(Enum):
    """The classes of reply, in the order in which they are recognised."""

    NO_REPLY = "lost, late or undecodable"
    NOT_FOUND = "FETCH_SESSION_ID_NOT_FOUND"
    WRONG_EPOCH = "INVALID_FETCH_SESSION_EPOCH"
    WRONG_KEYS = "FETCH_SESSION_TOPIC_ID_ERROR"
    FAILED = "any other top-level error"
    THROTTLED = "a full fetch answered by nothing but a throttle time (KIP-219)"
    INVALID = "partitions that were not asked for, or are missing"
    WITHOUT_ID = "good, session id 0"
    WITH_ID = "good, with a session id"


class Event(Enum):
    """What happened, for the caller and the counters."""

    OPENED = "opened"
    CONTINUED = "continued"
    SESSIONLESS = "sessionless"
    REFUSED = "refused"
    CLOSED = "closed"
    CLOSED_BY_BROKER = "closed_by_broker"
    LOST = "lost"
    EPOCH_MISMATCH = "epoch_mismatch"
    TOPIC_ID_ERROR = "topic_id_error"
    THROTTLED_FULL = "throttled_full"
    INVALID_REPLY = "invalid_reply"
    OTHER_ERROR = "other_error"
    REJECTED = "rejected"


class Next(Enum):
    """Rules for the next (id, epoch)."""

    RESET = "(0, 0)"
    REPLACE = "(id, 0)"
    BEGIN = "(id of the reply, 1)"
    ADVANCE = "(id, n + 1)"
    LEGACY = "(0, -1)"
    KEEP = "unchanged"


class Row(NamedTuple):
    """One transition."""

    request: Request
    answer: Answer
    next: Next
    """How (id, epoch) moves."""
    accepted: bool
    """Whether the reply counts: its data is used, and what was sent is what the broker holds."""
    event: Event


REQUESTS: Mapping[tuple[State, Need], Request] = {
    (State.NONE, Need.FETCH): Request.OPEN,
    (State.NONE, Need.EMPTY): Request.SESSIONLESS,
    (State.SESSION, Need.FETCH): Request.CONTINUE,
    (State.SESSION, Need.REKEY): Request.OPEN,
    (State.SESSION, Need.EMPTY): Request.CONTINUE,  # its forgets empty the session: it dies
    (State.SESSION, Need.CLOSE): Request.CLOSE,
    (State.DOUBT, Need.FETCH): Request.OPEN,
    (State.DOUBT, Need.EMPTY): Request.CLOSE,
    (State.DOUBT, Need.CLOSE): Request.CLOSE,
    (State.SESSIONLESS, Need.FETCH): Request.SESSIONLESS,
    (State.SESSIONLESS, Need.ASK): Request.OPEN,
    (State.SESSIONLESS, Need.EMPTY): Request.SESSIONLESS,
}

# An INVALID or THROTTLED full reply leaves (0, 0), not (id, 0): the broker has closed id by then.
# CONTINUE has no THROTTLED row: the broker advances its epoch before it throttles, so an empty
# incremental reply counts like any other.
ROWS: tuple[Row, ...] = (
    Row(Request.OPEN, Answer.NO_REPLY, Next.REPLACE, False, Event.REJECTED),
    Row(Request.OPEN, Answer.NOT_FOUND, Next.RESET, False, Event.LOST),
    Row(Request.OPEN, Answer.WRONG_EPOCH, Next.REPLACE, False, Event.EPOCH_MISMATCH),
    Row(Request.OPEN, Answer.WRONG_KEYS, Next.REPLACE, False, Event.TOPIC_ID_ERROR),
    Row(Request.OPEN, Answer.FAILED, Next.REPLACE, False, Event.OTHER_ERROR),
    Row(Request.OPEN, Answer.THROTTLED, Next.RESET, False, Event.THROTTLED_FULL),
    Row(Request.OPEN, Answer.INVALID, Next.RESET, False, Event.INVALID_REPLY),
    Row(Request.OPEN, Answer.WITHOUT_ID, Next.LEGACY, True, Event.REFUSED),
    Row(Request.OPEN, Answer.WITH_ID, Next.BEGIN, True, Event.OPENED),
    Row(Request.CONTINUE, Answer.NO_REPLY, Next.REPLACE, False, Event.REJECTED),
    Row(Request.CONTINUE, Answer.NOT_FOUND, Next.RESET, False, Event.LOST),
    Row(Request.CONTINUE, Answer.WRONG_EPOCH, Next.REPLACE, False, Event.EPOCH_MISMATCH),
    Row(Request.CONTINUE, Answer.WRONG_KEYS, Next.REPLACE, False, Event.TOPIC_ID_ERROR),
    Row(Request.CONTINUE, Answer.FAILED, Next.REPLACE, False, Event.OTHER_ERROR),
    Row(Request.CONTINUE, Answer.INVALID, Next.REPLACE, False, Event.INVALID_REPLY),
    Row(Request.CONTINUE, Answer.WITHOUT_ID, Next.RESET, True, Event.CLOSED_BY_BROKER),
    Row(Request.CONTINUE, Answer.WITH_ID, Next.ADVANCE, True, Event.CONTINUED),
    Row(Request.SESSIONLESS, Answer.NO_REPLY, Next.KEEP, False, Event.REJECTED),
    Row(Request.SESSIONLESS, Answer.NOT_FOUND, Next.KEEP, False, Event.LOST),
    Row(Request.SESSIONLESS, Answer.WRONG_EPOCH, Next.KEEP, False, Event.EPOCH_MISMATCH),
    Row(Request.SESSIONLESS, Answer.WRONG_KEYS, Next.KEEP, False, Event.TOPIC_ID_ERROR),
    Row(Request.SESSIONLESS, Answer.FAILED, Next.KEEP, False, Event.OTHER_ERROR),
    Row(Request.SESSIONLESS, Answer.THROTTLED, Next.KEEP, False, Event.THROTTLED_FULL),
    Row(Request.SESSIONLESS, Answer.INVALID, Next.KEEP, False, Event.INVALID_REPLY),
    Row(Request.SESSIONLESS, Answer.WITHOUT_ID, Next.KEEP, True, Event.SESSIONLESS),
    Row(Request.SESSIONLESS, Answer.WITH_ID, Next.BEGIN, True, Event.OPENED),
    Row(Request.CLOSE, Answer.NO_REPLY, Next.REPLACE, False, Event.REJECTED),
    Row(Request.CLOSE, Answer.NOT_FOUND, Next.RESET, True, Event.CLOSED),
    Row(Request.CLOSE, Answer.WRONG_EPOCH, Next.REPLACE, False, Event.EPOCH_MISMATCH),
    Row(Request.CLOSE, Answer.WRONG_KEYS, Next.REPLACE, False, Event.TOPIC_ID_ERROR),
    Row(Request.CLOSE, Answer.FAILED, Next.REPLACE, False, Event.OTHER_ERROR),
    Row(Request.CLOSE, Answer.THROTTLED, Next.RESET, True, Event.CLOSED),
    Row(Request.CLOSE, Answer.INVALID, Next.RESET, True, Event.CLOSED),
    Row(Request.CLOSE, Answer.WITHOUT_ID, Next.RESET, True, Event.CLOSED),
    Row(Request.CLOSE, Answer.WITH_ID, Next.RESET, True, Event.CLOSED),
)

REPLIES: Mapping[tuple[Request, Answer], Row] = {(row.request, row.answer): row for row in ROWS}

ERRORS: Mapping[int, Answer] = {
    FETCH_SESSION_ID_NOT_FOUND: Answer.NOT_FOUND,
    INVALID_FETCH_SESSION_EPOCH: Answer.WRONG_EPOCH,
    FETCH_SESSION_TOPIC_ID_ERROR: Answer.WRONG_KEYS,
}

_CARRIES: Mapping[Request, Callable[[FetchMetadata], FetchMetadata]] = {
    Request.OPEN: FetchMetadata.next_close_existing_attempt_new,
    Request.CONTINUE: lambda now: now,
    Request.SESSIONLESS: lambda now: LEGACY,
    Request.CLOSE: FetchMetadata.next_close_existing,
}

_MOVES: Mapping[Next, Callable[[FetchMetadata, int], FetchMetadata]] = {
    Next.RESET: lambda now, replied_id: INITIAL,
    Next.REPLACE: lambda now, replied_id: now.next_close_existing_attempt_new(),
    Next.BEGIN: lambda now, replied_id: FetchMetadata.new_incremental(replied_id),
    Next.ADVANCE: lambda now, replied_id: now.next_incremental(),
    Next.LEGACY: lambda now, replied_id: LEGACY,
    Next.KEEP: lambda now, replied_id: now,
}


def state_of(metadata: FetchMetadata) -> State:
    """The state that (id, epoch) stands for."""
    if metadata == LEGACY:
        return State.SESSIONLESS
    if metadata == INITIAL:
        return State.NONE
    return State.DOUBT if metadata.epoch == INITIAL_EPOCH else State.SESSION


def carried(request: Request, now: FetchMetadata) -> FetchMetadata:
    """The (id, epoch) that ``request`` carries."""
    return _CARRIES[request](now)


def moved(row: Row, now: FetchMetadata, replied_id: int) -> FetchMetadata:
    """The (id, epoch) after ``row``. The reply's id counts only where it opens a session."""
    return _MOVES[row.next](now, replied_id)


def classify(
    request: Request, *, error: int, session_id: int, only_throttled: bool, valid: bool
) -> Answer:
    """The class of a reply to ``request``.

    ``only_throttled``: it has a throttle time and no partition. ``valid``: its partitions are
    those asked for. Ids below 0 count as none: no broker hands them out.
    """
    if error:
        return ERRORS.get(error, Answer.FAILED)
    if only_throttled and request is not Request.CONTINUE:
        return Answer.THROTTLED
    if not valid:
        return Answer.INVALID
    return Answer.WITH_ID if session_id > 0 else Answer.WITHOUT_ID


_EXAMPLES: Mapping[State, FetchMetadata] = {
    State.NONE: INITIAL,
    State.SESSION: FetchMetadata(session_id=7, epoch=3),
    State.DOUBT: FetchMetadata(session_id=7),
    State.SESSIONLESS: LEGACY,
}


def edges() -> dict[tuple[State, State, Request], tuple[Event, ...]]:
    """What leads from a state to a state by a request, found by walking both tables."""
    found: dict[tuple[State, State, Request], dict[Event, None]] = {}
    for (state, _), request in REQUESTS.items():
        for row in (row for row in ROWS if row.request is request):
            after = state_of(moved(row, _EXAMPLES[state], 9))
            found.setdefault((state, after, request), {})[row.event] = None
    return {edge: tuple(events) for edge, events in found.items()}


def diagram() -> str:
    """The tables as a mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.NONE.name}"]
    lines += [f"    {state.name} : {state.name} {state.value.split(':')[0]}" for state in State]
    for (before, after, request), events in edges().items():
        happened = ", ".join(event.name for event in events)
        lines.append(f"    {before.name} --> {after.name} : {request.name} → {happened}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())
