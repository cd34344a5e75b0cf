"""Where a job's partitions are to go on: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from kfetch.model import TopicPartition

__all__ = [
    "Earliest",
    "Latest",
    "OffsetsFromFile",
    "PartitionOffsets",
    "Shifted",
    "Target",
    "Timed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """A partition as it stands: offsets."""

    tp: TopicPartition
    before: int
    """The next one that the job reads."""
    log_start: int
    log_end: int
    timed: int | None = None
    """Of the first record at the target's time or later; None if there is none."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The start of the log."""

    def __call__(self, stand: PartitionOffsets) -> int | None:
        """The offset that is wanted."""
        return stand.log_start

    def __str__(self) -> str:
        return "the start of the log"


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the log."""

    def __call__(self, stand: PartitionOffsets) -> int | None:
        """The offset that is wanted."""
        return stand.log_end

    def __str__(self) -> str:
        return "the end of the log"


@dataclass(frozen=True, slots=True)
class Timed:
    """The first record at a time or later; the log's end where there is none."""

    at: datetime

    @property
    def ms(self) -> int:
        """As Kafka counts: milliseconds since 1970."""
        return round(self.at.timestamp() * 1000)

    def __call__(self, stand: PartitionOffsets) -> int | None:
        """The offset that is wanted."""
        return stand.log_end if stand.timed is None else stand.timed

    def __str__(self) -> str:
        return f"the first record at {self.at.isoformat(sep=' ', timespec='seconds')} or later"


@dataclass(frozen=True, slots=True)
class Shifted:
    """So many offsets further, or back."""

    by: int

    def __call__(self, stand: PartitionOffsets) -> int | None:
        """The offset that is wanted."""
        return stand.before + self.by

    def __str__(self) -> str:
        return f"{abs(self.by):,} offsets {'back' if self.by < 0 else 'further'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFromFile:
    """The offsets of a file; partitions that it does not name stay where they are."""

    name: str
    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)

    def __call__(self, stand: PartitionOffsets) -> int | None:
        """The offset that is wanted; None: where it is."""
        return self.offsets.get(stand.tp)

    def __str__(self) -> str:
        return f"the offsets of {self.name}"


Target = Earliest | Latest | Timed | Shifted | OffsetsFromFile
