"""The edges between the states of a fetch session, as ``kfetch.session.transitions`` makes them.

docs/explanation/fetch-sessions.md has their table, and ``pictures`` draws the arrows.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from kfetch.session.metadata import INITIAL, LEGACY, FetchMetadata
from kfetch.session.transitions import (
    MOVES,
    RequestKind,
    SessionEvent,
    SessionState,
    can_close,
    next_request,
    state_of,
)

__all__ = ["Arrows", "Edge", "arrows", "edges", "requests_of", "table"]

_EXAMPLES: Mapping[SessionState, FetchMetadata] = {
    SessionState.NONE: INITIAL,
    SessionState.SESSION: FetchMetadata(session_id=7, epoch=3),
    SessionState.DOUBT: FetchMetadata(session_id=7),
    SessionState.SESSIONLESS: LEGACY,
}

Edge = tuple[SessionState, SessionState, RequestKind]
"""The state before, the state after, and the request that leads from one to the other."""

Arrows = dict[tuple[SessionState, SessionState], dict[RequestKind, tuple[SessionEvent, ...]]]
"""For each move from one state to another: the requests, and the events that happen along it."""


def requests_of(state: SessionState) -> list[RequestKind]:
    """Returns every request that ``state`` can send."""
    flags = product((False, True), repeat=3)
    sent = {next_request(state, empty=e, keys_changed=k, may_ask=a) for e, k, a in flags}
    if can_close(state):
        sent.add(RequestKind.CLOSE)
    return [request for request in RequestKind if request in sent]


def edges() -> dict[Edge, tuple[SessionEvent, ...]]:
    """Returns every edge of the moves, with the events that happen along it."""
    events_by_edge: dict[Edge, tuple[SessionEvent, ...]] = {}
    for before, metadata in _EXAMPLES.items():
        for request in requests_of(before):
            for event, move in MOVES[request].items():
                edge = before, state_of(move(metadata, 9)), request
                events_by_edge[edge] = (*events_by_edge.get(edge, ()), event)
    return events_by_edge


def arrows() -> Arrows:
    """Returns the edges that lead to another state."""
    moves: Arrows = {}
    for (before, after, request), events in edges().items():
        if before is not after:
            moves.setdefault((before, after), {})[request] = events
    return moves


def table() -> str:
    """Returns a row of Markdown for each arrow: its number, states, requests and replies."""
    rows = ["| arrow | from | to | request: replies |", "|---|---|---|---|"]
    for number, ((before, after), requests) in enumerate(arrows().items(), 1):
        replies = (
            f"{request.name}: {', '.join(event.name for event in events)}"
            for request, events in requests.items()
        )
        rows.append(f"| {number} | {before.name} | {after.name} | {'<br>'.join(replies)} |")
    return "\n".join(rows) + "\n"
