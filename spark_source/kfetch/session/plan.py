"""The plan of one request of a fetch session, and its outcome: plain frozen values.

The wire layer turns a ``FetchPlan`` into a Fetch request. ``replies`` has the answer to it, and the
session makes an ``Outcome`` of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kfetch.model import FetchPosition, TopicPartition
from kfetch.session.metadata import FetchMetadata
from kfetch.session.replies import ReplyKey
from kfetch.session.transitions import RequestKind, SessionEvent


class SessionUsageError(RuntimeError):
    """The caller broke a rule of the session. This is a bug of kfetch, never of the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlan:
    """The session's part of one Fetch request."""

    request: RequestKind
    """What the request does to the session."""
    metadata: FetchMetadata
    """Session id and epoch to send."""
    send: Mapping[TopicPartition, FetchPosition]
    """Partitions to name, in order: every one if ``full``, else the new and the altered ones."""
    forget: tuple[tuple[UUID, TopicPartition], ...] = ()
    """Partitions to forget, each with the topic id that the *session* has for it."""
    uses_topic_ids: bool
    """Send Fetch v13 or later if true, v12 or earlier if false."""
    request_token: object = field(repr=False)
    """Identifies the session state behind the plan. Any accept or reject makes it invalid."""

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
        """Whether ``send`` names every partition of the caller."""
        return self.metadata.is_full


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a reply, or its absence, did to the session."""

    event: SessionEvent
    """What happened."""
    partitions: Mapping[ReplyKey, TopicPartition] = field(default_factory=dict)
    """The partition behind each key of an accepted reply. A repeated key is here once."""
    problem: str = ""
    """Why the session did not accept the reply, for the log."""

    @property
    def accepted(self) -> bool:
        """True: use the reply and drop the planned changes. False: ignore it and keep them."""
        return self.event.accepted
