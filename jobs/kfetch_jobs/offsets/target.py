"""The offset at which each partition of a job goes on: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from kfetch.model import TopicPartition
from kfetch_jobs.util.times import utc


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The present offsets of a partition."""

    tp: TopicPartition
    before: int
    """The next offset that the job reads."""
    log_start: int
    log_end: int
    timed: int | None = None
    """The offset of the first record at the target's time or later; None if there is none."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The start of the log."""

    def __call__(self, offsets: PartitionOffsets) -> int | None:
        """Returns the target offset."""
        return offsets.log_start

    def __str__(self) -> str:
        return "the start of the log"


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the log."""

    def __call__(self, offsets: PartitionOffsets) -> int | None:
        """Returns the target offset."""
        return offsets.log_end

    def __str__(self) -> str:
        return "the end of the log"


@dataclass(frozen=True, slots=True)
class Timed:
    """The first record at a time or later; the log end if there is none."""

    at: datetime

    @property
    def ms(self) -> int:
        """The time in milliseconds since 1970."""
        return round(self.at.timestamp() * 1000)

    def __call__(self, offsets: PartitionOffsets) -> int | None:
        """Returns the target offset."""
        return offsets.log_end if offsets.timed is None else offsets.timed

    def __str__(self) -> str:
        return f"the first record at {utc(self.at.timestamp())} or later"


@dataclass(frozen=True, slots=True)
class Shifted:
    """A number of offsets further, or back."""

    by: int

    def __call__(self, offsets: PartitionOffsets) -> int | None:
        """Returns the target offset."""
        return offsets.before + self.by

    def __str__(self) -> str:
        return f"{abs(self.by):,} offsets {'back' if self.by < 0 else 'further'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFromFile:
    """The offsets of a file. Partitions that the file does not name do not move."""

    name: str
    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)

    def __call__(self, offsets: PartitionOffsets) -> int | None:
        """Returns the target offset; None if the partition does not move."""
        return self.offsets.get(offsets.tp)

    def __str__(self) -> str:
        return f"the offsets of {self.name}"


MoveTarget = Earliest | Latest | Timed | Shifted | OffsetsFromFile
