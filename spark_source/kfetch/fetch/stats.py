"""What a query's fetch sessions cost: requests, bytes, sessions, records, waits. Pure.

Counted per query, in each Python worker or agent. ``counts`` is the rule of counting,
``totals.Totals`` adds up, and ``stats_file`` writes files for the option ``kfetch.statsDirectory``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from kfetch.fetch.events import (
    BatchSkipped,
    Connected,
    Decoded,
    FetchEvent,
    Replied,
    Requested,
    SessionChanged,
    Undecoded,
    UnknownFields,
    WaitedForMemory,
)
from kfetch.session.transitions import SessionEvent
from kfetch.topic_counts import TopicCounts, added

KINDS = ("undecoded_kinds", "unknown_fields")
"""Fields that are counts by topic and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStats:
    """Totals since the query's first read in this process. Sizes are bytes on the wire."""

    full_requests: int = 0
    """Requests that named every partition."""
    full_request_bytes: int = 0
    incremental_requests: int = 0
    """Requests that named only changed partitions."""
    incremental_request_bytes: int = 0
    incremental_partitions: int = 0
    """Partitions that incremental requests named or forgot."""
    reply_bytes: int = 0
    other_rack_bytes: int = 0
    """Bytes of record batches from brokers of another rack, or of an unknown one; 0 without a rack.
    """
    wait_s: float = 0.0
    """Seconds between requests and their replies. Waits for several brokers may overlap."""
    records: int = 0
    batches_skipped: int = 0
    """Damaged record batches that the decoder skipped (kfetch.onCorruptBatch=skip)."""
    undecoded: int = 0
    """Records whose key or value could not be decoded. ``records`` includes them."""
    undecoded_kinds: TopicCounts = field(default_factory=dict)
    """These records by topic and by reason."""
    sampled: int = 0
    """Keys and values that were examined for fields that their schema lacks."""
    unknown_fields: TopicCounts = field(default_factory=dict)
    """Sampled keys and values with such fields, by topic and by field."""
    decode_s: float = 0.0
    starved_s: float = 0.0
    """Seconds that requests waited for memory (``kfetch.agent.memory``)."""
    sessions_opened: int = 0
    sessions_lost: int = 0
    """Sessions that the broker evicted, or that ended with the broker."""
    sessions_refused: int = 0
    """Sessions that a broker with a full session cache refused."""
    sessions_closed: int = 0
    """Sessions that kfetch closed."""
    connections_opened: int = 0

    def __add__(self, other: FetchStats) -> FetchStats:
        sums: dict[str, Any] = {}
        for name in (f.name for f in fields(self)):
            one, two = getattr(self, name), getattr(other, name)
            sums[name] = added(one, two) if name in KINDS else one + two
        return FetchStats(**sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """The fetch session of one query at one broker."""

    broker: str
    state: str
    """Name of a ``kfetch.session.transitions.SessionState``."""
    session_id: int
    """Of the next request, like ``epoch``."""
    epoch: int
    partitions: int
    """Number of partitions that the session holds."""
    rack: str = ""
    """The broker's rack; empty if it has none."""
    as_follower: int = 0
    """Number of these partitions that the broker does not lead (``kafka.client.rack``)."""


_SESSION_COUNTERS = {
    SessionEvent.OPENED: "sessions_opened",
    SessionEvent.LOST: "sessions_lost",
    SessionEvent.REFUSED: "sessions_refused",
    SessionEvent.CLOSED: "sessions_closed",
}


def counts(event: FetchEvent) -> Mapping[str, float]:
    """Returns which fields of FetchStats an event raises, and by how much."""
    match event:
        case Requested(full=True):
            return {"full_requests": 1, "full_request_bytes": event.size}
        case Requested():
            return {
                "incremental_requests": 1,
                "incremental_request_bytes": event.size,
                "incremental_partitions": event.partitions + event.forgotten,
            }
        case Replied():
            return {
                "reply_bytes": event.size,
                "other_rack_bytes": event.other_rack_bytes,
                "wait_s": event.wait_s,
            }
        case SessionChanged(event=change):
            return {_SESSION_COUNTERS[change]: 1} if change in _SESSION_COUNTERS else {}
        case WaitedForMemory():
            return {"starved_s": event.seconds}
        case Connected():
            return {"connections_opened": 1}
        case Decoded() | BatchSkipped() | Undecoded() | UnknownFields():
            return _record_counts(event)


def _record_counts(event: Decoded | BatchSkipped | Undecoded | UnknownFields) -> dict[str, float]:
    match event:
        case Decoded():
            return {"records": event.records, "decode_s": event.seconds}
        case BatchSkipped():
            return {"batches_skipped": 1}
        case Undecoded():
            return {"undecoded": event.records}
        case UnknownFields():
            return {"sampled": event.sampled}


def kinds(event: FetchEvent) -> Mapping[str, TopicCounts]:
    """Returns which counts by topic and name an event raises, and by how much."""
    match event:
        case Undecoded():
            return {"undecoded_kinds": {event.topic: {event.kind: event.records}}}
        case UnknownFields(fields=names) if names:
            return {"unknown_fields": {event.topic: names}}
    return {}


def total(parts: Iterable[FetchStats]) -> FetchStats:
    """Returns the sum of several processes' or brokers' totals."""
    return sum(parts, FetchStats())
