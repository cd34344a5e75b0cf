"""What a Fetch reply says: plain frozen values, which the wire layer reads from bytes.

References: KIP-227 (sessions), KIP-320 (diverging epochs), KIP-951 (new leaders in the reply).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kfetch.model import Broker
from kfetch.session.values import ReplyKey, SessionReply

__all__ = ["FetchReply", "PartitionReply"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReply:
    """One partition of a Fetch reply."""

    key: ReplyKey
    """(topic name, partition), from version 13 on (topic id, partition)."""
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    """(epoch, end offset) where our history leaves the broker's; None if it does not."""
    leader: tuple[int, int] | None
    """(broker id, leader epoch) of the new leader, when the broker is none (v16+)."""
    aborted: tuple[tuple[int, int], ...]
    """(producer id, first offset) of aborted transactions; only under read_committed."""
    preferred_read_replica: int
    records: memoryview
    """Record batches, whole ones and perhaps a cut one; a view into the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply:
    """A Fetch reply; its views live as long as the frame's memory is not received into again."""

    version: int
    throttle_ms: int
    error: int
    session_id: int
    partitions: tuple[PartitionReply, ...]
    endpoints: Mapping[int, Broker]
    """Addresses of the new leaders that ``partitions`` name (v16+)."""

    def for_session(self) -> SessionReply:
        """What the session needs to know of the reply."""
        return SessionReply(
            error=self.error,
            session_id=self.session_id,
            throttle_ms=self.throttle_ms,
            version=self.version,
            partitions=tuple(partition.key for partition in self.partitions),
        )
