"""The order of a merge's rows: the columns of ``latestBy``, or the record's offset.

Offsets order the records of one partition. So the default needs keys whose records are all in one
partition, as far as the files show that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kfetch_jobs.config.job import Job


def order_columns(job: Job) -> list[str]:
    """Returns the columns that order the rows of a key; none for an append."""
    sink = job.file.sink
    return (sink.latestBy or ["offset"]) if sink.mode == "merge" else []


def order_mistakes(job: Job) -> Iterator[str]:
    """Yields a sentence if a merge relies on offsets, and keys may be in several partitions."""
    sink = job.file.sink
    if sink.mode == "merge" and not sink.latestBy and not _keys_in_one_partition(job):
        yield (
            f"{job.document.file_line(('sink', 'mode'))}: sink.latestBy is missing: its default, "
            "offset, orders the rows of one partition only, and a key's rows may be in several: "
            "name columns that order them, such as a time; if the record's key decides the "
            "partition, write latestBy: offset"
        )


def reads_one_topic(job: Job) -> bool:
    """Returns whether all records of a job are of one topic, as its file says."""
    return len(_topics(job)) == 1


def _keys_in_one_partition(job: Job) -> bool:
    keys = {name.lower() for name in job.file.sink.keys}
    topics = _topics(job)
    if "partition" in keys:
        return len(topics) == 1 or "topic" in keys
    return len(topics) == 1 and topics[0][1] == 1


def _topics(job: Job) -> list[tuple[str, int | None]]:
    """The topics of all sources with their numbers of partitions; empty if the files don't say."""
    topics: list[tuple[str, int | None]] = []
    for view in job.file.views():
        subscription = job.parsed_options(view).subscription
        if subscription.pattern is not None:
            return []
        topics += [(name, None) for name in subscription.topics]
        topics += Counter(tp.topic for tp in subscription.assigned).items()
    return topics
