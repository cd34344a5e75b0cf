"""The ids of all topics that a job has read, by name. A table may have rows of each of them.

A topic that is deleted and created again has another id, and its offsets begin at 0. Rows keep no
id, and perhaps no name either. So the history comes from the note beside the checkpoint, the
checkpoint's micro-batches and the backups before moves. Spark removes old micro-batches, so each
run adds their ids to the note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from kfetch.admin.checkpoint import batch_numbers
from kfetch.admin.offset_log import parse_batch
from kfetch.admin.query import Offsets
from kfetch.errors import CheckpointError
from kfetch.storage.open import StoredPath

_TOGETHER = 16
"""How many objects are read at once."""
TopicIds = Mapping[str, frozenset[str]]
"""The ids of each topic, in hexadecimal digits; none for a topic of brokers before Kafka 2.8."""


def offsets_topic_ids(sources: Iterable[Offsets | None]) -> TopicIds:
    """Returns the topics in the offsets of a query's sources, with their ids.

    They include topics that have left the query.
    """
    return merged_ids(
        {topic: frozenset({id_.hex} if id_.int else ())}
        for source in sources
        if source
        for topic, id_ in {
            *((tp.topic, source.topic_id(tp.topic)) for tp in source.positions),
            *((tp.topic, last.topic_id) for tp, last in source.left.items()),
        }
    )


def checkpoint_topic_ids(checkpoint: StoredPath) -> TopicIds:
    """Returns the ids in all micro-batches that a checkpoint still has; none without one.

    Raises CheckpointError or OSError if one can't be read: a replay would delete rows that can't
    come again.
    """
    log = checkpoint / "offsets"
    read, numbers = partial(_batch_topic_ids, log), batch_numbers(log)
    if isinstance(log, Path):
        return merged_ids(map(read, numbers))
    with ThreadPoolExecutor(_TOGETHER) as pool:  # a store takes some 20 ms for each
        return merged_ids(pool.map(read, numbers))


def _batch_topic_ids(log: StoredPath, number: int) -> TopicIds:
    try:
        text = (log / str(number)).read_bytes().decode()
        return offsets_topic_ids(parse_batch(number, text).sources)
    except FileNotFoundError:  # a running query removes old files
        return {}
    except (UnicodeDecodeError, CheckpointError):  # a damaged one is told elsewhere
        return {}


def merged_ids(parts: Iterable[TopicIds]) -> TopicIds:
    """Returns all ids of all parts."""
    result: dict[str, frozenset[str]] = {}
    for part in parts:
        for topic, ids in part.items():
            result[topic] = result.get(topic, frozenset()) | ids
    return result
