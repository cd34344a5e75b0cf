"""What goes into a fetch session and what comes out: plain frozen values.

The wire layer turns a ``FetchPlan`` into a Fetch request and a Fetch response into a
``SessionReply``; the session answers with an ``Outcome``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kfetch.model import FetchPosition, TopicPartition
from kfetch.session.metadata import FetchMetadata
from kfetch.session.transitions import Event, Request

TOPIC_ID_VERSION = 13  # from this version of Fetch on topics are named by id alone (KIP-516)

ReplyKey = tuple[str | UUID, int]
"""(topic name, partition) up to Fetch v12, (topic id, partition) from v13 on."""


class SessionMisuse(RuntimeError):
    """The caller broke a rule of the session: a bug of ours, never the broker's doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlan:
    """The session's part of one Fetch request."""

    request: Request
    """What the request does to the session."""
    metadata: FetchMetadata
    """Session id and epoch to send."""
    send: Mapping[TopicPartition, FetchPosition]
    """Partitions to name, in order: all of them when ``full``, else the new and altered ones."""
    forget: tuple[tuple[UUID, TopicPartition], ...] = ()
    """Partitions to forget, each with the topic id that the *session* knows it by."""
    uses_topic_ids: bool
    """Send Fetch v13 or later if true, v12 or earlier if false."""
    turn: object = field(repr=False)
    """Ties the plan to the state it was made from: accepted or rejected once, and only then."""

    @property
    def session_id(self) -> int:
        """Session id to send, 0 for none."""
        return self.metadata.session_id

    @property
    def epoch(self) -> int:
        """Session epoch to send."""
        return self.metadata.epoch

    @property
    def full(self) -> bool:
        """Whether ``send`` is every partition wanted."""
        return self.metadata.is_full


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReply:
    """The session's part of one Fetch response."""

    error: int = 0
    """Top-level error code, 0 for none."""
    session_id: int = 0
    """The broker's session id, 0 for no session."""
    throttle_ms: int = 0
    """How long the broker asks us to wait before the next request (KIP-219)."""
    version: int | None = None
    """Version of Fetch that was spoken; if given, checked against the plan."""
    partitions: Collection[ReplyKey] = ()
    """Partitions in the response, in order, whatever their partition-level errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a reply, or its absence, did to the session."""

    accepted: bool
    """Use the reply's data and drop the planned changes; if false use none and keep them."""
    event: Event
    """What happened."""
    partitions: Mapping[ReplyKey, TopicPartition] = field(default_factory=dict)
    """The partition behind each key of an accepted reply; a key that came twice is here once."""
    problem: str = ""
    """Why the reply was not accepted, for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats:
    """How often each event happened; the names are those of ``Event``."""

    opened: int = 0
    """The broker opened a session for us."""
    continued: int = 0
    """An incremental fetch was answered."""
    sessionless: int = 0
    """A full fetch was answered while no session was asked for."""
    refused: int = 0
    """A session was asked for and the broker had no room."""
    closed: int = 0
    """We closed the session."""
    closed_by_broker: int = 0
    """The broker closed it: nothing was left in it, as a rule."""
    lost: int = 0
    """The broker no longer knew the session: evicted, or the broker was started anew."""
    epoch_mismatch: int = 0
    """Broker and client disagreed on the number of the request."""
    topic_id_error: int = 0
    """The session was opened with the other kind of topic key."""
    throttled_full: int = 0
    """A full fetch was throttled and answered without data."""
    invalid_reply: int = 0
    """A reply lacked partitions or had some that were not asked for."""
    other_error: int = 0
    """Any other top-level error."""
    rejected: int = 0
    """No usable reply at all."""
