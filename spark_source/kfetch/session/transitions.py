"""Every move of a fetch session: the next request, what its reply means, and the next (id, epoch).

``next_request`` chooses the request of a state. ``reply_event`` names what a reply means. ``MOVES``
says how each event moves (session id, epoch). ``session`` moves in no other way.

The moves are those of Kafka's FetchSessionHandler, with three differences. After a refusal,
kfetch goes on without a session and asks again after a back-off; Kafka asks with every request. A
client without partitions asks for no session, so that it takes no slot of the broker's cache. And a
full reply may omit some partitions; the next request names these again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

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


class RequestKind(Enum):
    """The kinds of Fetch request; the value is the (id, epoch) that it carries."""

    OPEN = "(id or 0, 0)"
    CONTINUE = "(id, n)"
    SESSIONLESS = "(0, -1)"
    CLOSE = "(id, -1)"


class SessionEvent(Enum):
    """What a reply, or its absence, means for the session."""

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

    @property
    def accepted(self) -> bool:
        """Whether the reply counts: its data is used, and the broker holds what was sent."""
        return self in _ACCEPTED


_ACCEPTED = frozenset(
    {
        SessionEvent.OPENED,
        SessionEvent.CONTINUED,
        SessionEvent.SESSIONLESS,
        SessionEvent.REFUSED,
        SessionEvent.CLOSED,
        SessionEvent.CLOSED_BY_BROKER,
    }
)

_ERROR_EVENTS: Mapping[int, SessionEvent] = {
    FETCH_SESSION_ID_NOT_FOUND: SessionEvent.LOST,
    INVALID_FETCH_SESSION_EPOCH: SessionEvent.EPOCH_MISMATCH,
    FETCH_SESSION_TOPIC_ID_ERROR: SessionEvent.TOPIC_ID_ERROR,
}


def state_of(metadata: FetchMetadata) -> SessionState:
    """Returns the state that (id, epoch) stands for."""
    if metadata == LEGACY:
        return SessionState.SESSIONLESS
    if metadata == INITIAL:
        return SessionState.NONE
    return SessionState.DOUBT if metadata.epoch == INITIAL_EPOCH else SessionState.SESSION


def next_request(
    state: SessionState, *, empty: bool, keys_changed: bool, may_ask: bool
) -> RequestKind:
    """Returns the request that ``state`` sends to fetch.

    ``empty``: the caller reads no partition any more.
    ``keys_changed``: topics are keyed by id now instead of by name, or the other way round.
    ``may_ask``: the back-off after a refusal is over.
    """
    match state:
        case SessionState.NONE:
            return RequestKind.SESSIONLESS if empty else RequestKind.OPEN
        case SessionState.SESSION:
            # The forgets of an empty request use the session's own keys. The broker closes it.
            return RequestKind.OPEN if keys_changed and not empty else RequestKind.CONTINUE
        case SessionState.DOUBT:
            return RequestKind.CLOSE if empty else RequestKind.OPEN
        case SessionState.SESSIONLESS:
            return RequestKind.OPEN if may_ask and not empty else RequestKind.SESSIONLESS


def can_close(state: SessionState) -> bool:
    """Returns whether the broker may hold a session that a CLOSE ends."""
    return state in (SessionState.SESSION, SessionState.DOUBT)


def request_metadata(request: RequestKind, current: FetchMetadata) -> FetchMetadata:
    """Returns the (id, epoch) that ``request`` carries."""
    match request:
        case RequestKind.OPEN:
            return current.next_close_existing_attempt_new()
        case RequestKind.CONTINUE:
            return current
        case RequestKind.SESSIONLESS:
            return LEGACY
        case RequestKind.CLOSE:
            return current.next_close_existing()


def reply_event(
    request: RequestKind, *, error: int, session_id: int, only_throttled: bool, valid: bool
) -> SessionEvent:
    """Returns what a reply to ``request`` means.

    ``session_id``: the reply's. Ids below 0 count as none: no broker gives them to a session.
    ``only_throttled``: the reply has a throttle time and no partition (KIP-219). An incremental
    reply without partitions counts like any other, because the broker advances its epoch before it
    throttles.
    ``valid``: the reply's partitions fit the request.
    """
    if request is RequestKind.CLOSE and error in (0, FETCH_SESSION_ID_NOT_FOUND):
        return SessionEvent.CLOSED
    if error:
        return _ERROR_EVENTS.get(error, SessionEvent.OTHER_ERROR)
    if only_throttled and request is not RequestKind.CONTINUE:
        return SessionEvent.THROTTLED_FULL
    if not valid:
        return SessionEvent.INVALID_REPLY
    return _good_reply_event(request, has_session=session_id > 0)


def _good_reply_event(request: RequestKind, *, has_session: bool) -> SessionEvent:
    if request is RequestKind.CONTINUE:  # whatever id the reply has
        return SessionEvent.CONTINUED if has_session else SessionEvent.CLOSED_BY_BROKER
    if has_session:
        return SessionEvent.OPENED
    return SessionEvent.REFUSED if request is RequestKind.OPEN else SessionEvent.SESSIONLESS


Transition = Callable[[FetchMetadata, int], FetchMetadata]
"""Returns the next (id, epoch) from the current one and the reply's session id."""


def _reset(current: FetchMetadata, replied_id: int) -> FetchMetadata:
    return INITIAL


def _replace(current: FetchMetadata, replied_id: int) -> FetchMetadata:
    return current.next_close_existing_attempt_new()


def _begin(current: FetchMetadata, replied_id: int) -> FetchMetadata:
    return FetchMetadata.new_incremental(replied_id)


def _advance(current: FetchMetadata, replied_id: int) -> FetchMetadata:
    return current.next_incremental()


def _go_without(current: FetchMetadata, replied_id: int) -> FetchMetadata:
    return LEGACY


def _keep(current: FetchMetadata, replied_id: int) -> FetchMetadata:
    return current


# The broker may hold the session, at an epoch that nobody knows.
_DOUBTFUL: Mapping[SessionEvent, Transition] = {
    SessionEvent.REJECTED: _replace,
    SessionEvent.EPOCH_MISMATCH: _replace,
    SessionEvent.TOPIC_ID_ERROR: _replace,
    SessionEvent.OTHER_ERROR: _replace,
}

MOVES: Mapping[RequestKind, Mapping[SessionEvent, Transition]] = {
    # A reply without an error shows that the broker has closed the session that OPEN named.
    RequestKind.OPEN: {
        **_DOUBTFUL,
        SessionEvent.LOST: _reset,
        SessionEvent.THROTTLED_FULL: _reset,
        SessionEvent.INVALID_REPLY: _reset,
        SessionEvent.REFUSED: _go_without,
        SessionEvent.OPENED: _begin,
    },
    RequestKind.CONTINUE: {
        **_DOUBTFUL,
        SessionEvent.INVALID_REPLY: _replace,
        SessionEvent.LOST: _reset,
        SessionEvent.CLOSED_BY_BROKER: _reset,
        SessionEvent.CONTINUED: _advance,
    },
    RequestKind.SESSIONLESS: {
        **dict.fromkeys(_DOUBTFUL, _keep),
        SessionEvent.LOST: _keep,
        SessionEvent.THROTTLED_FULL: _keep,
        SessionEvent.INVALID_REPLY: _keep,
        SessionEvent.SESSIONLESS: _keep,
        SessionEvent.OPENED: _begin,
    },
    RequestKind.CLOSE: {**_DOUBTFUL, SessionEvent.CLOSED: _reset},
}
