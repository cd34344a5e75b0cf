"""Refuses moves that would mix the rows of a topic with those of an earlier topic of its name.

A row's offset says nothing about the topic's id. Rows of an earlier topic can't come again.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from kfetch_jobs.checkpoints.backup import all_backups
from kfetch_jobs.checkpoints.checkpoint import Checkpoint
from kfetch_jobs.checkpoints.origin import noted_topic_ids
from kfetch_jobs.checkpoints.topic_history import (
    TopicIds,
    checkpoint_topic_ids,
    merged_ids,
    offsets_topic_ids,
)
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError


def check_no_earlier_topic(
    job: Job, checkpoint: Checkpoint, topics: AbstractSet[str], present: Mapping[str, str]
) -> None:
    """Raise JobsError if the job has read one of the topics under another id than ``present``."""
    history = _history(job, checkpoint)
    for topic in sorted(topics & present.keys()):
        if earlier := sorted(history.get(topic, frozenset()) - {present[topic]}):
            raise JobsError(
                f"job {job.name}: topic {topic} was deleted and created again, and the job has "
                f"read the earlier one too (id {earlier[-1]}): a replay would delete rows of it, "
                "and those can't come again: delete the wrong rows yourself and use kfetch "
                "offsets reset, which leaves the table alone"
            )


def _history(job: Job, checkpoint: Checkpoint) -> TopicIds:
    places = [checkpoint.path, *(backup.path for backup in all_backups(checkpoint.path))]
    return merged_ids([noted_topic_ids(job), *map(checkpoint_topic_ids, places)])


def check_same_topics(job: Job, before: Checkpoint, now: Checkpoint) -> None:
    """Raise JobsError if the checkpoints have different ids of a topic."""
    then, present = start_topic_ids(before), start_topic_ids(now)
    for topic, ids in sorted(then.items()):
        if not ids & present.get(topic, ids):
            raise JobsError(
                f"job {job.name}: topic {topic} was deleted and created again since, so its "
                "offsets of then are of no use: let the job go on as it is"
            )


def start_topic_ids(checkpoint: Checkpoint) -> TopicIds:
    """Returns the ids of the offsets at which the next run goes on."""
    return offsets_topic_ids(checkpoint.start(number) for number in range(checkpoint.sources))
