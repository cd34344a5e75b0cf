"""The offset that Spark keeps in the checkpoint: positions with leader epochs and topic ids.

    {"version": 1, "topics": {"clicks": {"id": "…", "partitions": {"0": [1200, 7]}}},
     "sessions": {"1": [837261, 41]}}

``[next offset, leader epoch]``: the epoch of the leader under which the offset was known to be
committed. ``sessions``: [id, epoch] of the driver's fetch session at each broker when data last
moved, so that the next run can close what a crash left behind. Spark compares offsets as JSON text,
so the order of keys is canonical: topics by name, partitions by number. The end of a query's first
batch also carries ``from``, the positions it starts at, because Spark does not log the initial
offset: after a crash in batch 0 it asks for it again, and with ``latest`` the new answer would lie
past the logged end.

The plain ``{"clicks": {"0": 1200}}`` of Spark's own connector is read too; a newer version is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from kfetch.errors import CheckpointError
from kfetch.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition

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
    sessions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """(id, epoch) of the watch session at each broker, by the broker's id."""
    _document: dict[str, Any] | None = field(default=None, init=False, compare=False, repr=False)
    """What ``to_json`` made; nobody may change it."""

    def topic_id(self, topic: str) -> UUID:
        """The topic's id, or the zero id where none is known."""
        return self.topic_ids.get(topic, NO_TOPIC_ID)

    def to_json(self) -> dict[str, Any]:
        """The JSON object for Spark, its keys in canonical order; made once, not to be changed."""
        if self._document is None:
            self._keep(self._with_extras(self._topics()))
        return self._document or {}

    def only(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The same, of some partitions only; those that have no position are left out."""
        known = self.positions
        return Offsets(
            positions={tp: known[tp] for tp in partitions if tp in known},
            topic_ids=self.topic_ids,
        )

    def replaced(
        self,
        moved: Mapping[TopicPartition, Position],
        *,
        gone: Collection[TopicPartition] = (),
        topic_ids: Mapping[str, UUID],
        sessions: Mapping[int, tuple[int, int]],
        first_batch: Mapping[TopicPartition, Position] | None = None,
    ) -> Offsets:
        """These offsets with some positions moved, added or gone.

        Where only positions move the work is O(moved), but for copies of dicts at C's speed: a
        micro-batch that moves 10 of 10,000 partitions does not write 10,000 positions anew.
        """
        positions = {**self.positions, **moved}
        for tp in gone:
            positions.pop(tp, None)
        after = replace(
            self,
            positions=positions,
            topic_ids=topic_ids,
            sessions=sessions,
            first_batch=first_batch,
        )
        if len(positions) == len(self.positions) and not gone and topic_ids == self.topic_ids:
            after._keep(after._with_extras(_moved_topics(self.to_json()["topics"], moved)))
        return after

    def _keep(self, document: dict[str, Any]) -> None:
        object.__setattr__(self, "_document", document)

    def _with_extras(self, topics: dict[str, Any]) -> dict[str, Any]:
        document: dict[str, Any] = {"version": VERSION, "topics": topics}
        if self.first_batch is not None:
            document["from"] = _grouped(self.first_batch)
        if self.sessions:
            document["sessions"] = {str(n): list(pair) for n, pair in sorted(self.sessions.items())}
        return document

    def _topics(self) -> dict[str, Any]:
        return {
            topic: {"id": self.topic_id(topic).hex, "partitions": partitions}
            for topic, partitions in _grouped(self.positions).items()
        }


class Documents:
    """Offsets on their way from and to Spark, which hands the last ones back again and again.

    Comparing a document with one that is remembered costs a twentieth of reading it.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[Mapping[str, Any], Offsets]] = deque(maxlen=3)

    def read(self, document: Mapping[str, Any]) -> Offsets:
        """The offsets of a document; the same object as before for one that is remembered."""
        for known, offsets in self._recent:
            if known == document:
                return offsets
        return self._remember(document, from_json(document))

    def write(self, offsets: Offsets) -> dict[str, Any]:
        """The document of offsets."""
        document = offsets.to_json()
        self._remember(document, offsets)
        return document

    def _remember(self, document: Mapping[str, Any], offsets: Offsets) -> Offsets:
        self._recent.appendleft((document, offsets))
        return offsets


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
                f"{VERSION}",
                action="run the kfetch that wrote it, or a newer one",
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
        sessions={int(n): _session(*pair) for n, pair in document.get("sessions", {}).items()},
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


def _session(session_id: object, epoch: object) -> tuple[int, int]:
    return _number(session_id, lowest=0), _number(epoch, lowest=-1)


def _number(value: object, *, lowest: int) -> int:
    if type(value) is not int or value < lowest:
        raise ValueError(f"{value!r} is no whole number from {lowest} on")
    return value


def _grouped(positions: Mapping[TopicPartition, Position]) -> dict[str, dict[str, list[int]]]:
    grouped: dict[str, dict[str, list[int]]] = {}
    for tp in sorted(positions):
        grouped.setdefault(tp.topic, {})[str(tp.partition)] = list(positions[tp])
    return grouped


def _moved_topics(
    topics: Mapping[str, Any], moved: Mapping[TopicPartition, Position]
) -> dict[str, Any]:
    """The JSON of topics with some positions moved, none added: the order of keys stays."""
    after = dict(topics)
    for tp, position in moved.items():
        entry = after[tp.topic]
        if entry is topics[tp.topic]:
            entry = after[tp.topic] = {**entry, "partitions": dict(entry["partitions"])}
        entry["partitions"][str(tp.partition)] = list(position)
    return after
