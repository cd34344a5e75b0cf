"""The progress of a range: its fetch position, which moves while the range is read."""

from __future__ import annotations

from dataclasses import dataclass

from kfetch.model import NO_EPOCH, Broker, FetchPosition, Leader, OffsetRange, TopicPartition
from kfetch.records import Extent, Slice
from kfetch.records.batch import first_of_later_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaChoice:
    """Where one partition is read, as its leader or an error has decided (KIP-392)."""

    leader: Leader
    """The leader that was asked."""
    follower: Broker | None = None
    """The follower to read from; None for the leader."""
    until: float
    """Monotonic seconds. From then on the choice is over."""

    def holds(self, leader: Leader, now: float) -> bool:
        """Returns whether the choice counts for a range that knows this leader."""
        asked = self.leader
        same = (asked.broker.node_id, asked.epoch) == (leader.broker.node_id, leader.epoch)
        return same and now < self.until


@dataclass(slots=True, eq=False)
class RangeProgress:
    """A range and the fetch position in it."""

    range: OffsetRange
    index: int
    """Number of the range in its split."""
    offset: int
    """Next offset to read. The range is done when it reaches ``end``."""
    end: int
    """Exclusive. The range's own end, or an earlier one after a loss."""
    leader: Broker
    leader_epoch: int
    last_fetched_epoch: int = NO_EPOCH
    """Epoch of the last record batch read; -1 before the first batch.

    The checkpoint's epoch is the leader's, not a record batch's. A broker would take it for a
    divergence."""

    requested_at: float = 0.0
    """Monotonic time when the range became the first in its partition's queue."""
    asked_s: float = 0.0
    """For how many seconds earlier brokers were asked and sent no records."""
    unknown_epochs: int = 0
    """How many times a leader did not know ``last_fetched_epoch``."""
    missing_since: float | None = None
    """Monotonic time since when no broker's metadata has had the partition."""
    advanced_at: float = 0.0
    """Monotonic time when records last moved the position."""
    truncated_at: int | None = None
    """Where the log was truncated after the range was planned. The range ends there."""
    choice: ReplicaChoice | None = None
    """Where the range is read; None: at the leader, which has not been asked for a follower."""
    omitted_once: bool = False
    """Whether a full reply omitted the partition. Then the next reply decides about a follower."""

    @classmethod
    def of(cls, item: OffsetRange, index: int = 0) -> RangeProgress:
        """Returns the progress of a range that nobody has read yet."""
        return cls(item, index, item.start, item.end, item.leader, item.leader_epoch)

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.range.tp

    @property
    def known_leader(self) -> Leader:
        """The partition's leader, as far as the range knows."""
        return Leader(broker=self.leader, epoch=self.leader_epoch)

    @property
    def follower(self) -> Broker | None:
        """The follower that the range is read from; None for the leader."""
        return self.choice.follower if self.choice else None

    @property
    def broker(self) -> Broker:
        """The broker to read from: the follower if there is one, else the leader."""
        return self.follower or self.leader

    @property
    def done(self) -> bool:
        """Whether the position is behind every offset of the range, gaps included."""
        return self.offset >= self.end

    def position(self, max_bytes: int) -> FetchPosition:
        """Returns the position that the session is to hold for the partition."""
        return FetchPosition(
            topic_id=self.range.topic_id,
            offset=self.offset,
            max_bytes=max_bytes,
            leader_epoch=self.leader_epoch,
            last_fetched_epoch=self.last_fetched_epoch,
        )

    def slice(self, data: memoryview, aborted: tuple[tuple[int, int], ...] = ()) -> Slice:
        """Returns the part of a reply's records that belongs to the range, for the decoder."""
        return Slice(tp=self.tp, start=self.offset, end=self.end, data=data, aborted=aborted)

    def end_before_truncation(self, data: memoryview, extent: Extent) -> None:
        """End the range where the log was truncated since it was planned, if ``data`` shows it.

        The records before the planned end are of ``end_epoch`` or an earlier epoch. A later one
        means that an election cut the log below that end, and that others were written there. The
        driver finds the truncation too and continues from it, so they would come twice.
        """
        epoch = self.range.end_epoch
        if epoch in (NO_EPOCH, extent.leader_epoch) or extent.leader_epoch < epoch:
            return
        self.truncated_at = first_of_later_epoch(data, epoch, self.end)
        if self.truncated_at is not None:
            self.end = max(self.offset, self.truncated_at)

    def advance(self, extent: Extent) -> bool:
        """Move the position behind the complete batches of a reply. Returns whether it moved."""
        if extent.next_offset <= self.offset:
            return False
        self.offset = extent.next_offset
        self.last_fetched_epoch = extent.leader_epoch
        return True
