"""Looks whether Kafka still has the records of offsets that a job must read again.

Retention removes records at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kfetch.admin.sources import LogOffsets, log_offsets
from kfetch.errors import KfetchError
from kfetch.model import TopicPartition
from kfetch_jobs.checkpoints.backup import OffsetRange
from kfetch_jobs.checkpoints.origin import check_cluster
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError

Margin = Callable[[int, int], int]
"""Returns how many offsets from the log's start count as gone, for the log's start and end."""


def no_margin(log_start: int, log_end: int) -> int:
    """Returns 0: only offsets below the log's start count as gone."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets that can't be read again, or that may be gone soon."""

    offsets: OffsetRange
    log_start: int | None
    """None if the topic has another id by now."""

    def __str__(self) -> str:
        one = self.offsets
        if self.log_start is None:
            return (
                f"offsets {one.begin} to {one.end - 1} of {one.topic}-{one.partition} can't be "
                "read again, because the topic was deleted and created again"
            )
        fate = "can't" if one.begin < self.log_start else "soon can't"
        return (
            f"offsets {one.begin} to {one.end - 1} of {one.topic}-{one.partition} {fate} be read "
            f"again, because retention has moved the log's start to {self.log_start}"
        )


def unreadable(
    job: Job,
    views: Sequence[str],
    ranges: Sequence[OffsetRange],
    topic_ids: Mapping[str, str],
    margin: Margin = no_margin,
) -> list[Gap]:
    """Ask Kafka for the log starts, and return the parts of the ranges that it may not keep.

    ``topic_ids`` are the ids of the ranges' topics, in hexadecimal digits, as far as known.
    Raises ConfigError if a source's brokers are of another cluster than the checkpoint. Raises the
    source's error if they refuse or do not answer.
    """
    return [
        gap for view in views for gap in _gaps(_logs(job, view, ranges), ranges, topic_ids, margin)
    ]


def _logs(job: Job, view: str, ranges: Sequence[OffsetRange]) -> LogOffsets:
    options = job.parsed_options(view)
    partitions = [tp for tp in map(_partition, ranges) if options.subscription.includes(tp.topic)]
    try:
        check_cluster(job, view)
        return log_offsets(options, partitions)
    except JobsError:
        raise
    except KfetchError as cause:
        raise job.error(
            f"job {job.name}, source {view}: kfetch cannot tell whether Kafka still has the "
            "records that the job must read again",
            cause,
        ) from cause


def _gaps(
    logs: LogOffsets, ranges: Sequence[OffsetRange], topic_ids: Mapping[str, str], margin: Margin
) -> Iterator[Gap]:
    for one in ranges:
        present = logs.topic_ids.get(one.topic)
        if present is not None and present.hex != topic_ids.get(one.topic, present.hex):
            yield Gap(offsets=one, log_start=None)
        elif (at := logs.starts.get(_partition(one))) is not None:
            safe = at.offset + margin(at.offset, logs.ends[_partition(one)].offset)
            if one.begin < min(safe, one.end):
                unsafe = replace(one, end=min(safe, one.end))
                yield Gap(offsets=unsafe, log_start=at.offset)


def _partition(one: OffsetRange) -> TopicPartition:
    return TopicPartition(one.topic, one.partition)
