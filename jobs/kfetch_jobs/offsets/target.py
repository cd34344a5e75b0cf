"""The offset to which a move takes each partition of a job: pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from kfetch.model import TopicPartition
from kfetch_jobs.util.wording import utc


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The present offsets of a partition."""

    tp: TopicPartition
    before: int
    """The next offset that the job reads."""
    log_start: int
    log_end: int
    at_time: int | None = None
    """The offset of the first record at the target's time or later; None if there is none."""


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """Where the partitions of a job read next, after a move of its offsets."""

    name: str
    """For people: ``the start of the log``."""
    offset: Callable[[PartitionOffsets], int | None]
    """Returns a partition's target offset; None if the partition does not move."""
    timestamp_ms: int | None = None
    """The time for which Kafka must look up offsets, in milliseconds since 1970."""
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """The ids of the topics to which the offsets belong, as far as known."""

    def __str__(self) -> str:
        return self.name


EARLIEST = MoveTarget("the start of the log", lambda offsets: offsets.log_start)
LATEST = MoveTarget("the end of the log", lambda offsets: offsets.log_end)


def since(at: datetime) -> MoveTarget:
    """Returns the target: the first record at a time or later; the log end if there is none.

    A time is 0 at least, because Kafka gives negative ones another meaning: -1 is the log end
    (ListOffsetsRequest.java).
    """
    return MoveTarget(
        f"the first record at {utc(at.timestamp())} or later",
        lambda offsets: offsets.log_end if offsets.at_time is None else offsets.at_time,
        timestamp_ms=max(0, round(at.timestamp() * 1000)),
    )


def shifted(by: int) -> MoveTarget:
    """Returns the target ``by`` offsets after the job's present offset; before it if negative."""
    name = f"{abs(by):,} offsets {'back' if by < 0 else 'further'}"
    return MoveTarget(name, lambda offsets: offsets.before + by)
