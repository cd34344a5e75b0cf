"""The content of a Fetch reply: plain frozen values, which the wire layer reads from bytes.

References: KIP-227 (sessions), KIP-320 (diverging epochs), KIP-951 (new leaders in the reply).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from kfetch.model import Broker

TOPIC_ID_VERSION = 13  # from this version on, Fetch names topics by id alone (KIP-516)

ReplyKey = tuple[str | UUID, int]
"""(topic name, partition) up to Fetch v12, (topic id, partition) from v13 on."""

NO_REPLICA = -1
"""Of ``preferred_read_replica``: the leader names no follower (KIP-392)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReply:
    """The session's part of one Fetch response."""

    error: int = 0
    """Top-level error code, 0 for none."""
    session_id: int = 0
    """The broker's session id, 0 for no session."""
    throttle_ms: int = 0
    """How long the broker asks the client to wait before the next request (KIP-219)."""
    version: int | None = None
    """Version of the Fetch request; the session compares it with the plan unless it is None."""
    partitions: Collection[ReplyKey] = ()
    """Partitions in the response, in order, with or without a partition-level error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReply:
    """One partition of a Fetch reply."""

    key: ReplyKey
    """(topic name, partition) up to version 12, (topic id, partition) from version 13 on."""
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    """(epoch, end offset) where the client's log leaves the broker's; None if they agree."""
    leader: tuple[int, int] | None
    """(broker id, leader epoch) of the new leader, if the broker is not the leader (v16+)."""
    aborted: tuple[tuple[int, int], ...]
    """(producer id, first offset) of aborted transactions; only under read_committed."""
    preferred_read_replica: int
    """The follower that the leader names instead of sending records (v11+); -1 for none."""
    records: memoryview
    """Complete record batches, and perhaps a partial one at the end: a view into the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply:
    """A Fetch reply. Its views are valid until the next reply uses the frame's memory."""

    version: int
    throttle_ms: int
    error: int
    session_id: int
    partitions: tuple[PartitionReply, ...]
    endpoints: Mapping[int, Broker]
    """Addresses of the new leaders that ``partitions`` name (v16+)."""

    def for_session(self) -> SessionReply:
        """Returns the session's part of the reply."""
        return SessionReply(
            error=self.error,
            session_id=self.session_id,
            throttle_ms=self.throttle_ms,
            version=self.version,
            partitions=tuple(partition.key for partition in self.partitions),
        )
