"""How far a range has been read: the mutable half of a split, one per range.

Several ranges of one partition are read one after the other, because a session holds one position
per partition: ``Queue`` gives the one whose turn it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from spark_source.model import NO_EPOCH, Broker, FetchPosition, OffsetRange, TopicPartition
from spark_source.records import Extent, Slice


@dataclass(slots=True)
class Progress:
    """A range and the position in it."""

    range: OffsetRange
    offset: int
    """Next offset to read; the range is done when it reaches ``end``."""
    end: int
    """Exclusive; the range's own, unless a loss cut it short."""
    leader: Broker
    leader_epoch: int
    last_fetched_epoch: int = NO_EPOCH
    """Epoch of the last record batch read; -1 before the first, as the checkpoint's epoch is the
    leader's, not a record's, and would be taken for divergence."""

    @classmethod
    def of(cls, item: OffsetRange) -> Progress:
        """The beginning of a range."""
        return cls(item, item.start, item.end, item.leader, item.leader_epoch)

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

    def slice(self, data: memoryview) -> Slice:
        """What is to be decoded of a reply's records."""
        return Slice(tp=self.tp, start=self.offset, end=self.end, data=data)

    def advance(self, extent: Extent) -> bool:
        """Pass the complete batches of a reply; whether there were any to pass."""
        if extent.next_offset <= self.offset:
            return False
        self.offset = extent.next_offset
        self.last_fetched_epoch = extent.leader_epoch
        return True


class Queue:
    """The ranges of a split, each partition's in order."""

    def __init__(self, ranges: Iterable[OffsetRange]) -> None:
        self._waiting: dict[TopicPartition, deque[Progress]] = {}
        for item in ranges:
            if item.size > 0:
                self._waiting.setdefault(item.tp, deque()).append(Progress.of(item))

    @property
    def current(self) -> dict[TopicPartition, Progress]:
        """The range to read now, of every partition that is not done."""
        return {tp: ranges[0] for tp, ranges in self._waiting.items()}

    def get(self, tp: TopicPartition) -> Progress | None:
        """The partition's current range; None when the partition is done, or not ours."""
        ranges = self._waiting.get(tp)
        return ranges[0] if ranges else None

    def pop_done(self, tp: TopicPartition) -> Progress | None:
        """Leave the partition's ranges that are done; the range that is next, None if none is."""
        ranges = self._waiting[tp]
        while ranges and ranges[0].done:
            ranges.popleft()
        if not ranges:
            del self._waiting[tp]
            return None
        return ranges[0]

    def __bool__(self) -> bool:
        return bool(self._waiting)
