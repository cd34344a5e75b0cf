"""The offset that Spark keeps in the checkpoint: positions with leader epochs and topic ids.

    {"version": 1, "topics": {"clicks": {"id": "…", "partitions": {"0": [1200, 7]}}}}

``[next offset, leader epoch]``: the epoch of the leader under which the offset was known to be
committed. Spark compares offsets as JSON text, so the order of keys is canonical: topics by
name, partitions by number. The end of a query's first batch also carries ``from``, the positions
it starts at, because Spark does not log the initial offset: after a crash in batch 0 it asks for
it again, and with ``latest`` the new answer would lie past the logged end.

The plain ``{"clicks": {"0": 1200}}`` of Spark's own connector is read too; a newer version is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from spark_source.errors import CheckpointError
from spark_source.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition

VERSION = 1


class Position(NamedTuple):
    """Where a partition stands: the next offset to read, and the leader epoch it was seen under."""

    offset: int
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Positions of all partitions of a source at one moment."""

    positions: Mapping[TopicPartition, Position]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """Ids of the topics; a topic that came without one (an old broker) is not in it."""
    first_batch: Mapping[TopicPartition, Position] | None = None
    """``from``: where batch 0 starts; only in the end of batch 0."""

    def topic_id(self, topic: str) -> UUID:
        """The topic's id, or the zero id where none is known."""
        return self.topic_ids.get(topic, NO_TOPIC_ID)

    def to_json(self) -> dict[str, Any]:
        """The JSON object for Spark, its keys in canonical order."""
        document: dict[str, Any] = {"version": VERSION, "topics": self._topics()}
        if self.first_batch is not None:
            document["from"] = _grouped(self.first_batch)
        return document

    def _topics(self) -> dict[str, Any]:
        return {
            topic: {"id": self.topic_id(topic).hex, "partitions": partitions}
            for topic, partitions in _grouped(self.positions).items()
        }


def from_json(document: Mapping[str, Any]) -> Offsets:
    """Read an offset of the checkpoint, kfetch's or Spark's connector's.

    Raises CheckpointError for a newer version or a document that is neither.
    """
    try:
        version = document.get("version")
        if type(version) is not int:
            return _from_connector(document)
        if version != VERSION:
            raise CheckpointError(
                f"the checkpoint's offset has version {version}, but this kfetch knows version "
                f"{VERSION}: run the kfetch that wrote it, or a newer one",
                version=version,
            )
        return _from_kfetch(document)
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise CheckpointError(
            f"the checkpoint's offset is neither kfetch's nor Spark's Kafka connector's "
            f"({type(problem).__name__}: {problem}): {str(document)[:200]}"
        ) from None


def _from_kfetch(document: Mapping[str, Any]) -> Offsets:
    topics: Mapping[str, Any] = document["topics"]
    ids = {topic: UUID(hex=entry["id"]) for topic, entry in topics.items()}
    start = document.get("from")
    return Offsets(
        positions=_flattened({topic: entry["partitions"] for topic, entry in topics.items()}),
        topic_ids={topic: topic_id for topic, topic_id in ids.items() if topic_id != NO_TOPIC_ID},
        first_batch=None if start is None else _flattened(start),
    )


def _from_connector(document: Mapping[str, Any]) -> Offsets:
    return Offsets(
        positions={
            _partition(topic, partition): Position(_number(offset, lowest=0))
            for topic, partitions in document.items()
            for partition, offset in partitions.items()
        }
    )


def _flattened(topics: Mapping[str, Mapping[str, Iterable[int]]]) -> dict[TopicPartition, Position]:
    return {
        _partition(topic, partition): _position(*pair)
        for topic, partitions in topics.items()
        for partition, pair in partitions.items()
    }


def _partition(topic: str, index: str) -> TopicPartition:
    return TopicPartition(topic, _number(int(index), lowest=0))


def _position(offset: object, leader_epoch: object) -> Position:
    return Position(_number(offset, lowest=0), _number(leader_epoch, lowest=NO_EPOCH))


def _number(value: object, *, lowest: int) -> int:
    if type(value) is not int or value < lowest:
        raise ValueError(f"{value!r} is no whole number from {lowest} on")
    return value


def _grouped(positions: Mapping[TopicPartition, Position]) -> dict[str, dict[str, list[int]]]:
    grouped: dict[str, dict[str, list[int]]] = {}
    for tp in sorted(positions):
        grouped.setdefault(tp.topic, {})[str(tp.partition)] = list(positions[tp])
    return grouped
