"""The ids of all topics that a job has read, by name. A table may have rows of each of them.

A topic that is deleted and created again has another id, and its offsets begin at 0. Rows keep no
id. So the history comes from the note beside the checkpoint, the checkpoint's micro-batches and the
backups before moves. Spark removes old micro-batches, so each run adds their ids to the note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kfetch.admin.checkpoint import batch_numbers, read_batch
from kfetch.admin.query import Offsets
from kfetch.errors import CheckpointError
from kfetch.storage.open import StoredPath

TopicIds = Mapping[str, frozenset[str]]
"""The ids of each topic, in hexadecimal digits."""


def offsets_topic_ids(sources: Iterable[Offsets | None]) -> TopicIds:
    """Returns the ids in the offsets of a query's sources."""
    return merged_ids(
        {topic: frozenset({id_.hex}) for topic, id_ in source.topic_ids.items() if id_.int}
        for source in sources
        if source
    )


def checkpoint_topic_ids(checkpoint: StoredPath) -> TopicIds:
    """Returns the ids in all micro-batches that a checkpoint still has; none without one."""
    try:
        numbers = batch_numbers(checkpoint / "offsets")
    except CheckpointError:
        return {}
    return merged_ids(_batch_topic_ids(checkpoint, number) for number in numbers)


def _batch_topic_ids(checkpoint: StoredPath, number: int) -> TopicIds:
    try:
        return offsets_topic_ids(read_batch(checkpoint, number).sources)
    except CheckpointError:  # a running query removes old files; a damaged one is told elsewhere
        return {}


def merged_ids(parts: Iterable[TopicIds]) -> TopicIds:
    """Returns all ids of all parts."""
    result: dict[str, frozenset[str]] = {}
    for part in parts:
        for topic, ids in part.items():
            result[topic] = result.get(topic, frozenset()) | ids
    return result
