"""What arrives for a range: records, an error, the loss of its broker, or another replica.

After each arrival without records, the range has left its BrokerReader. Its SplitReader decides
where the range is read from then on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kfetch.errors import KfetchError
from kfetch.fetch.progress import RangeProgress
from kfetch.records import Slice
from kfetch.session.replies import NO_REPLICA, FetchReply, PartitionReply


def _release_nothing() -> None:
    """The default: no budget counts the memory of the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsArrived:
    """Records of a range."""

    progress: RangeProgress
    records: Slice
    next_offset: int
    """Position behind ``records``."""
    release: Callable[[], None] = _release_nothing
    """Gives the memory of ``records`` back to the budget. Further calls do nothing."""

    @property
    def advanced(self) -> bool:
        """Whether the records moved the range's position."""
        return self.next_offset > self.records.start

    @property
    def is_last(self) -> bool:
        """Whether these are the last records of the range."""
        return self.next_offset >= self.progress.end


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFailed:
    """The broker answered with an error of the partition, or with a divergence."""

    progress: RangeProgress
    partition: PartitionReply
    reply: FetchReply
    """The whole reply, which may name the new leader."""
    arrived_at: float = field(default_factory=lambda: time.monotonic())
    """Monotonic time. A task may handle an arrival long after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFailed:
    """The broker gives no usable reply. ``error`` says why."""

    progress: RangeProgress
    error: KfetchError
    arrived_at: float = field(default_factory=lambda: time.monotonic())
    """See PartitionFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeHandedOn:
    """Another replica is to send the records (KIP-392): a follower, or the leader again."""

    progress: RangeProgress
    follower_id: int = NO_REPLICA
    """The node id of the follower that the leader names. By default, the leader is next."""
    forced: bool = False
    """Whether the leader named it unasked. Such a leader may never send records itself."""
    lags: bool = False
    """Whether the range leaves a follower that has had no new records for seconds."""
    arrived_at: float = field(default_factory=lambda: time.monotonic())
    """See PartitionFailed."""


Arrival = RecordsArrived | PartitionFailed | BrokerFailed | RangeHandedOn


def release(arrivals: Iterable[Arrival]) -> None:
    """Give back the memory of arrivals that nobody will decode, or that are decoded."""
    for arrival in arrivals:
        if isinstance(arrival, RecordsArrived):
            arrival.release()
