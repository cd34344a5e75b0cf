"""How far a range has been read: the mutable half of a split, one per range."""

from __future__ import annotations

from dataclasses import dataclass

from kfetch.model import NO_EPOCH, Broker, FetchPosition, OffsetRange, TopicPartition
from kfetch.records import Extent, Slice


@dataclass(slots=True, eq=False)
class RangeProgress:
    """A range and the position in it."""

    range: OffsetRange
    index: int
    """Number of the range in its split."""
    offset: int
    """Next offset to read; the range is done when it reaches ``end``."""
    end: int
    """Exclusive; the range's own, unless a loss cut it short."""
    leader: Broker
    leader_epoch: int
    last_fetched_epoch: int = NO_EPOCH
    """Epoch of the last record batch read; -1 before the first, as the checkpoint's epoch is the
    leader's, not a record's, and would be taken for divergence."""

    asked_since: float = 0.0
    """When the range came first in its partition's line (monotonic time)."""
    missing: int = 0
    """How often running the metadata had no such partition."""

    @classmethod
    def of(cls, item: OffsetRange, index: int = 0) -> RangeProgress:
        """The beginning of a range."""
        return cls(item, index, item.start, item.end, item.leader, item.leader_epoch)

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.range.tp

    @property
    def done(self) -> bool:
        """Whether every offset of the range has been passed, gaps included."""
        return self.offset >= self.end

    def position(self, max_bytes: int) -> FetchPosition:
        """What the session is to hold for the partition."""
        return FetchPosition(
            topic_id=self.range.topic_id,
            offset=self.offset,
            max_bytes=max_bytes,
            leader_epoch=self.leader_epoch,
            last_fetched_epoch=self.last_fetched_epoch,
        )

    def slice(self, data: memoryview, aborted: tuple[tuple[int, int], ...] = ()) -> Slice:
        """What is to be decoded of a reply's records."""
        return Slice(tp=self.tp, start=self.offset, end=self.end, data=data, aborted=aborted)

    def advance(self, extent: Extent) -> bool:
        """Pass the complete batches of a reply; whether there were any to pass."""
        if extent.next_offset <= self.offset:
            return False
        self.offset = extent.next_offset
        self.last_fetched_epoch = extent.leader_epoch
        return True
