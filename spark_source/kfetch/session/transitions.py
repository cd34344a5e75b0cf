"""Every move of a fetch session, as data: two tables and the rules that they name.

``REQUEST_KINDS`` gives the request that a state sends for a purpose. ``TRANSITIONS`` gives the
effect of each reply on the state. ``session`` moves (session id, epoch) only by these tables.
``python -m kfetch.session.transitions`` draws the diagram in docs/fetch-sessions.md from them.

The rows are those of Kafka's FetchSessionHandler, with two differences. After a refusal, kfetch
goes on without a session and asks again after a back-off; Kafka asks with every request. And a
client without partitions asks for no session, so that it takes no slot of the broker's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from kfetch.session.metadata import INITIAL, INITIAL_EPOCH, LEGACY, FetchMetadata

FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
FETCH_SESSION_TOPIC_ID_ERROR = 106


class SessionState(Enum):
    """The state of the client. It follows from (id, epoch) and is not stored beside it."""

    NONE = "(0, 0): no session, ask for one"
    SESSION = "(id, n): incremental"
    DOUBT = "(id, 0): the broker may hold that session, at an unknown epoch"
    SESSIONLESS = "(0, -1): refused, full fetches for a while"


class Purpose(Enum):
    """What the next request is for."""

    FETCH = "fetch, with the topic keys of the session"
    REKEY = "fetch, but topics are keyed by id now instead of by name, or the other way round"
    ASK = "fetch, and the back-off after a refusal is over"
    EMPTY = "the caller reads no partition any more"
    CLOSE = "the caller closes the session"


class RequestKind(Enum):
    """The kinds of Fetch request; the value is the (id, epoch) that it carries."""

    OPEN = "(id or 0, 0)"
    CONTINUE = "(id, n)"
    SESSIONLESS = "(0, -1)"
    CLOSE = "(id, -1)"


class ReplyClass(Enum):
    """The classes of reply, in the order in which ``classify`` checks them."""

    NO_REPLY = "lost, late or undecodable"
    NOT_FOUND = "FETCH_SESSION_ID_NOT_FOUND"
    WRONG_EPOCH = "INVALID_FETCH_SESSION_EPOCH"
    WRONG_KEYS = "FETCH_SESSION_TOPIC_ID_ERROR"
    FAILED = "any other top-level error"
    THROTTLED = "a full fetch answered by nothing but a throttle time (KIP-219)"
    INVALID = "partitions that the request did not name, or missing partitions"
    WITHOUT_ID = "good, session id 0"
    WITH_ID = "good, with a session id"


class SessionEvent(Enum):
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


class NextMetadata(Enum):
    """Rules for the next (id, epoch)."""

    RESET = "(0, 0)"
    REPLACE = "(id, 0)"
    BEGIN = "(id of the reply, 1)"
    ADVANCE = "(id, n + 1)"
    LEGACY = "(0, -1)"
    KEEP = "unchanged"


class Transition(NamedTuple):
    """The effect of a reply on the session: one row of the table."""

    next: NextMetadata
    """How (id, epoch) moves."""
    accepted: bool
    """Whether the reply counts: the caller uses its data, and the broker holds what was sent."""
    event: SessionEvent


REQUEST_KINDS: Mapping[tuple[SessionState, Purpose], RequestKind] = {
    (SessionState.NONE, Purpose.FETCH): RequestKind.OPEN,
    (SessionState.NONE, Purpose.EMPTY): RequestKind.SESSIONLESS,
    (SessionState.SESSION, Purpose.FETCH): RequestKind.CONTINUE,
    (SessionState.SESSION, Purpose.REKEY): RequestKind.OPEN,
    # Its forgets empty the session, so the broker closes it.
    (SessionState.SESSION, Purpose.EMPTY): RequestKind.CONTINUE,
    (SessionState.SESSION, Purpose.CLOSE): RequestKind.CLOSE,
    (SessionState.DOUBT, Purpose.FETCH): RequestKind.OPEN,
    (SessionState.DOUBT, Purpose.EMPTY): RequestKind.CLOSE,
    (SessionState.DOUBT, Purpose.CLOSE): RequestKind.CLOSE,
    (SessionState.SESSIONLESS, Purpose.FETCH): RequestKind.SESSIONLESS,
    (SessionState.SESSIONLESS, Purpose.ASK): RequestKind.OPEN,
    (SessionState.SESSIONLESS, Purpose.EMPTY): RequestKind.SESSIONLESS,
}

# An INVALID or THROTTLED full reply leads to (0, 0), not (id, 0): the broker has already closed id.
# CONTINUE has no THROTTLED row: the broker advances its epoch before it throttles, so an empty
# incremental reply counts like any other.
_ROWS: Mapping[RequestKind, Mapping[ReplyClass, tuple[NextMetadata, bool, SessionEvent]]] = {
    RequestKind.OPEN: {
        ReplyClass.NO_REPLY: (NextMetadata.REPLACE, False, SessionEvent.REJECTED),
        ReplyClass.NOT_FOUND: (NextMetadata.RESET, False, SessionEvent.LOST),
        ReplyClass.WRONG_EPOCH: (NextMetadata.REPLACE, False, SessionEvent.EPOCH_MISMATCH),
        ReplyClass.WRONG_KEYS: (NextMetadata.REPLACE, False, SessionEvent.TOPIC_ID_ERROR),
        ReplyClass.FAILED: (NextMetadata.REPLACE, False, SessionEvent.OTHER_ERROR),
        ReplyClass.THROTTLED: (NextMetadata.RESET, False, SessionEvent.THROTTLED_FULL),
        ReplyClass.INVALID: (NextMetadata.RESET, False, SessionEvent.INVALID_REPLY),
        ReplyClass.WITHOUT_ID: (NextMetadata.LEGACY, True, SessionEvent.REFUSED),
        ReplyClass.WITH_ID: (NextMetadata.BEGIN, True, SessionEvent.OPENED),
    },
    RequestKind.CONTINUE: {
        ReplyClass.NO_REPLY: (NextMetadata.REPLACE, False, SessionEvent.REJECTED),
        ReplyClass.NOT_FOUND: (NextMetadata.RESET, False, SessionEvent.LOST),
        ReplyClass.WRONG_EPOCH: (NextMetadata.REPLACE, False, SessionEvent.EPOCH_MISMATCH),
        ReplyClass.WRONG_KEYS: (NextMetadata.REPLACE, False, SessionEvent.TOPIC_ID_ERROR),
        ReplyClass.FAILED: (NextMetadata.REPLACE, False, SessionEvent.OTHER_ERROR),
        ReplyClass.INVALID: (NextMetadata.REPLACE, False, SessionEvent.INVALID_REPLY),
        ReplyClass.WITHOUT_ID: (NextMetadata.RESET, True, SessionEvent.CLOSED_BY_BROKER),
        ReplyClass.WITH_ID: (NextMetadata.ADVANCE, True, SessionEvent.CONTINUED),
    },
    RequestKind.SESSIONLESS: {
        ReplyClass.NO_REPLY: (NextMetadata.KEEP, False, SessionEvent.REJECTED),
        ReplyClass.NOT_FOUND: (NextMetadata.KEEP, False, SessionEvent.LOST),
        ReplyClass.WRONG_EPOCH: (NextMetadata.KEEP, False, SessionEvent.EPOCH_MISMATCH),
        ReplyClass.WRONG_KEYS: (NextMetadata.KEEP, False, SessionEvent.TOPIC_ID_ERROR),
        ReplyClass.FAILED: (NextMetadata.KEEP, False, SessionEvent.OTHER_ERROR),
        ReplyClass.THROTTLED: (NextMetadata.KEEP, False, SessionEvent.THROTTLED_FULL),
        ReplyClass.INVALID: (NextMetadata.KEEP, False, SessionEvent.INVALID_REPLY),
        ReplyClass.WITHOUT_ID: (NextMetadata.KEEP, True, SessionEvent.SESSIONLESS),
        ReplyClass.WITH_ID: (NextMetadata.BEGIN, True, SessionEvent.OPENED),
    },
    RequestKind.CLOSE: {
        ReplyClass.NO_REPLY: (NextMetadata.REPLACE, False, SessionEvent.REJECTED),
        ReplyClass.NOT_FOUND: (NextMetadata.RESET, True, SessionEvent.CLOSED),
        ReplyClass.WRONG_EPOCH: (NextMetadata.REPLACE, False, SessionEvent.EPOCH_MISMATCH),
        ReplyClass.WRONG_KEYS: (NextMetadata.REPLACE, False, SessionEvent.TOPIC_ID_ERROR),
        ReplyClass.FAILED: (NextMetadata.REPLACE, False, SessionEvent.OTHER_ERROR),
        ReplyClass.THROTTLED: (NextMetadata.RESET, True, SessionEvent.CLOSED),
        ReplyClass.INVALID: (NextMetadata.RESET, True, SessionEvent.CLOSED),
        ReplyClass.WITHOUT_ID: (NextMetadata.RESET, True, SessionEvent.CLOSED),
        ReplyClass.WITH_ID: (NextMetadata.RESET, True, SessionEvent.CLOSED),
    },
}

TRANSITIONS: Mapping[tuple[RequestKind, ReplyClass], Transition] = {
    (request, reply_class): Transition(*row)
    for request, rows in _ROWS.items()
    for reply_class, row in rows.items()
}

ERRORS: Mapping[int, ReplyClass] = {
    FETCH_SESSION_ID_NOT_FOUND: ReplyClass.NOT_FOUND,
    INVALID_FETCH_SESSION_EPOCH: ReplyClass.WRONG_EPOCH,
    FETCH_SESSION_TOPIC_ID_ERROR: ReplyClass.WRONG_KEYS,
}

_REQUEST_METADATA: Mapping[RequestKind, Callable[[FetchMetadata], FetchMetadata]] = {
    RequestKind.OPEN: FetchMetadata.next_close_existing_attempt_new,
    RequestKind.CONTINUE: lambda current: current,
    RequestKind.SESSIONLESS: lambda current: LEGACY,
    RequestKind.CLOSE: FetchMetadata.next_close_existing,
}

_NEXT_METADATA: Mapping[NextMetadata, Callable[[FetchMetadata, int], FetchMetadata]] = {
    NextMetadata.RESET: lambda current, replied_id: INITIAL,
    NextMetadata.REPLACE: lambda current, replied_id: current.next_close_existing_attempt_new(),
    NextMetadata.BEGIN: lambda current, replied_id: FetchMetadata.new_incremental(replied_id),
    NextMetadata.ADVANCE: lambda current, replied_id: current.next_incremental(),
    NextMetadata.LEGACY: lambda current, replied_id: LEGACY,
    NextMetadata.KEEP: lambda current, replied_id: current,
}


def state_of(metadata: FetchMetadata) -> SessionState:
    """Returns the state that (id, epoch) stands for."""
    if metadata == LEGACY:
        return SessionState.SESSIONLESS
    if metadata == INITIAL:
        return SessionState.NONE
    return SessionState.DOUBT if metadata.epoch == INITIAL_EPOCH else SessionState.SESSION


def request_metadata(request: RequestKind, current: FetchMetadata) -> FetchMetadata:
    """Returns the (id, epoch) that ``request`` carries."""
    return _REQUEST_METADATA[request](current)


def next_metadata(transition: Transition, current: FetchMetadata, replied_id: int) -> FetchMetadata:
    """Returns the (id, epoch) after ``transition``.

    ``replied_id``: the reply's session id. It counts only where the reply opens a session.
    """
    return _NEXT_METADATA[transition.next](current, replied_id)


def classify(
    request: RequestKind, *, error: int, session_id: int, only_throttled: bool, valid: bool
) -> ReplyClass:
    """Returns the class of a reply to ``request``.

    ``session_id``: the reply's. Ids below 0 count as none: no broker gives them to a session.
    ``only_throttled``: the reply has a throttle time and no partition.
    ``valid``: the reply's partitions fit the request.
    """
    if error:
        return ERRORS.get(error, ReplyClass.FAILED)
    if only_throttled and request is not RequestKind.CONTINUE:
        return ReplyClass.THROTTLED
    if not valid:
        return ReplyClass.INVALID
    return ReplyClass.WITH_ID if session_id > 0 else ReplyClass.WITHOUT_ID


_EXAMPLES: Mapping[SessionState, FetchMetadata] = {
    SessionState.NONE: INITIAL,
    SessionState.SESSION: FetchMetadata(session_id=7, epoch=3),
    SessionState.DOUBT: FetchMetadata(session_id=7),
    SessionState.SESSIONLESS: LEGACY,
}

Edge = tuple[SessionState, SessionState, RequestKind]
"""The state before, the state after, and the request that leads from one to the other."""


def edges() -> dict[Edge, tuple[SessionEvent, ...]]:
    """Returns every edge of the tables, with the events that happen along it."""
    events_by_edge: dict[Edge, dict[SessionEvent, None]] = {}
    for (before, _), request in REQUEST_KINDS.items():
        for (row_request, _), transition in TRANSITIONS.items():
            if row_request is request:
                after = state_of(next_metadata(transition, _EXAMPLES[before], 9))
                events_by_edge.setdefault((before, after, request), {})[transition.event] = None
    return {edge: tuple(events) for edge, events in events_by_edge.items()}


def diagram() -> str:
    """Returns the tables as a mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {SessionState.NONE.name}"]
    lines += [f"    {s.name} : {s.name} {s.value.split(':')[0]}" for s in SessionState]
    for (before, after, request), events in edges().items():
        names = ", ".join(event.name for event in events)
        lines.append(f"    {before.name} --> {after.name} : {request.name} → {names}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(diagram())
