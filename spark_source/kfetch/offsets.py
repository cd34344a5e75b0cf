"""The offsets that Spark keeps in the checkpoint: positions with leader epochs and topic ids.

    {"version": 1, "topics": {"clicks": {"id": "…", "partitions": {"0": [1200, 7]}}}}

A position is ``[next offset, leader epoch]``. The epoch is that of the leader under which the
offset was known to be committed. Older checkpoints also have ``sessions``. kfetch ignores that key,
and the next offset that moves no longer has it.

Spark compares offsets as JSON text, so the keys have one order: topics by name, partitions by
number. The end of a query's first batch also carries ``from``, the positions where the batch
starts. Spark does not log the initial offset and asks for it again after a crash in batch 0. With
``latest`` the new answer would lie past the logged end. An empty first batch has no ``from``, and
then the next one has it.

``left`` has the last positions of partitions that left the query, with the id of their topic:

    "left": {"views": {"id": "…", "partitions": {"0": [88, 3, 1795335036]}}}

The third number is the time when the partition left, in seconds since 1970. If a topic of the same
id comes back, the query continues there. Earlier releases ignore ``left``, and so lose it.

kfetch also reads the plain ``{"clicks": {"0": 1200}}`` of Spark's own connector. It does not read a
newer version of its own format.
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

LEFT_PARTITIONS_MAX = 10_000
"""The most partitions in ``left``. The one that left first is forgotten first."""
LEFT_AGE_MAX_S = 7 * 24 * 3600
"""A partition that left longer ago is forgotten with the next micro-batch."""


class Position(NamedTuple):
    """The next offset to read in a partition, and the leader epoch under which it was seen."""

    offset: int
    leader_epoch: int = NO_EPOCH


Positions = Mapping[TopicPartition, Position]


class LeftPosition(NamedTuple):
    """The last position of a partition that left the query."""

    topic_id: UUID
    position: Position
    left_at_s: int
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The positions of all partitions of a source at one moment."""

    positions: Positions
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """The ids of the topics. Topics of brokers before Kafka 2.8 have none and are left out."""
    first_batch: Positions | None = None
    """``from``: where the query's first batch starts. Only the end of that batch has it."""
    left: Mapping[TopicPartition, LeftPosition] = field(default_factory=dict)
    """Partitions that left: their topic is deleted, hidden, or no longer subscribed."""
    by_connector: bool = field(default=False, compare=False)
    """Whether Spark's connector wrote the document."""
    _document: dict[str, Any] | None = field(default=None, init=False, compare=False, repr=False)
    """The result of ``to_json``, not to be changed."""
    _left_summary: tuple[int, dict[str, UUID]] | None = field(
        default=None, init=False, compare=False, repr=False
    )
    """The time when the first partition of ``left`` left, and the ids of the topics in it."""

    def topic_id(self, topic: str) -> UUID:
        """Returns the topic's id, or the zero id if it is unknown."""
        return self.topic_ids.get(topic, NO_TOPIC_ID)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object for Spark, with its keys in order. The caller must not change it.

        The object is built once.
        """
        if self._document is None:
            self._set_document(self._topics())
        return self._document or {}

    def restricted_to(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Returns the offsets of these partitions, as far as they have a position."""
        positions = self.positions
        return Offsets(
            positions={tp: positions[tp] for tp in partitions if tp in positions},
            topic_ids=self.topic_ids,
        )

    def with_returned(
        self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, UUID]
    ) -> Offsets:
        """Returns these offsets, with the last positions of those ``partitions`` that left before.

        A topic that was created again has another id and other records: its partitions stay away.
        ``topic_ids``: the present ids.
        """
        returned = {
            tp: self.left[tp].position
            for tp in self.left.keys() & partitions
            if tp not in self.positions and self.left[tp].topic_id == topic_ids.get(tp.topic)
        }
        return replace(self, positions={**self.positions, **returned}) if returned else self

    def left_after(
        self,
        gone: Positions,
        present: Collection[TopicPartition],
        topic_ids: Mapping[str, UUID],
        now_s: int,
    ) -> Mapping[TopicPartition, LeftPosition]:
        """Returns ``left`` after partitions have gone, and others are ``present``.

        ``gone``: the next offsets to read. Partitions of topics without an id are left out, because
        another topic of the same name looks alike. ``topic_ids``: the present ids. ``now_s``:
        seconds since 1970. While all of ``left`` stays, the work is O(present).
        """
        known_ids = {**self.topic_ids, **topic_ids}
        if not gone and self._all_stay_away(present, known_ids, now_s):
            return self.left
        left = {
            tp: last
            for tp, last in self.left.items()
            if tp not in present
            and known_ids.get(tp.topic, last.topic_id) == last.topic_id
            and now_s - last.left_at_s < LEFT_AGE_MAX_S
        }
        for tp, position in gone.items():
            topic_id = self.topic_id(tp.topic)
            if topic_id != NO_TOPIC_ID and known_ids[tp.topic] == topic_id:
                left[tp] = LeftPosition(topic_id, position, now_s)
        if len(left) > LEFT_PARTITIONS_MAX:
            by_time = sorted(left, key=lambda tp: (left[tp].left_at_s, tp))
            left = {tp: left[tp] for tp in by_time[-LEFT_PARTITIONS_MAX:]}
        return left if gone or len(left) < len(self.left) else self.left

    def _all_stay_away(
        self, present: Collection[TopicPartition], topic_ids: Mapping[str, UUID], now_s: int
    ) -> bool:
        """Returns whether all of ``left`` stays.

        A partition does not stay if it is present, is too old, or has a topic with another id now.
        """
        if not self.left:
            return True
        first_s, left_ids = self._summary_of_left()
        return (
            now_s - first_s < LEFT_AGE_MAX_S
            and self.left.keys().isdisjoint(present)
            and all(left_ids[t] == topic_ids[t] for t in left_ids.keys() & topic_ids.keys())
        )

    def _summary_of_left(self) -> tuple[int, dict[str, UUID]]:
        if self._left_summary is not None:
            return self._left_summary
        first_s = min(last.left_at_s for last in self.left.values())
        summary = first_s, {tp.topic: last.topic_id for tp, last in self.left.items()}
        object.__setattr__(self, "_left_summary", summary)
        return summary

    def with_moved(
        self,
        moved: Positions,
        *,
        gone: Collection[TopicPartition] = (),
        topic_ids: Mapping[str, UUID],
        first_batch: Positions | None = None,
        left: Mapping[TopicPartition, LeftPosition] | None = None,
    ) -> Offsets:
        """Returns these offsets with positions moved, added (``moved``) or removed (``gone``).

        Without ``left``, the partitions that left stay the same. If positions only move, the work
        is O(moved), apart from copies of dicts at C's speed. A micro-batch that moves 10 of 10,000
        partitions does not build 10,000 positions again.
        """
        positions = {**self.positions, **moved}
        for tp in gone:
            positions.pop(tp, None)
        after = replace(
            self,
            positions=positions,
            topic_ids=topic_ids,
            first_batch=first_batch,
            left=self.left if left is None else left,
            by_connector=False,
        )
        if len(positions) == len(self.positions) and not gone and topic_ids == self.topic_ids:
            before = self.to_json()
            left_topics = before.get("left") if after.left is self.left else None
            after._set_document(_moved_topics(before["topics"], moved), left_topics)
        if after.left is self.left:
            object.__setattr__(after, "_left_summary", self._left_summary)
        return after

    def _set_document(
        self, topics: dict[str, Any], left_topics: dict[str, Any] | None = None
    ) -> None:
        document: dict[str, Any] = {"version": VERSION, "topics": topics}
        if self.first_batch is not None:
            document["from"] = _grouped(self.first_batch)
        if self.left:
            document["left"] = left_topics or _left_topics(self.left)
        object.__setattr__(self, "_document", document)

    def _topics(self) -> dict[str, Any]:
        return {
            topic: {"id": self.topic_id(topic).hex, "partitions": partitions}
            for topic, partitions in _grouped(self.positions).items()
        }


class DocumentCache:
    """Converts offsets from and to Spark's JSON, and remembers the last ones.

    Spark passes the same offsets several times. Comparing a document with a remembered one costs a
    twentieth of parsing it.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[Mapping[str, Any], Offsets]] = deque(maxlen=3)

    def read(self, document: Mapping[str, Any]) -> Offsets:
        """Returns the offsets of a document, the same object again for a remembered document."""
        for known, offsets in self._recent:
            if known == document:
                return offsets
        return self._remember(document, from_json(document))

    def write(self, offsets: Offsets) -> dict[str, Any]:
        """Returns the document of offsets."""
        document = offsets.to_json()
        self._remember(document, offsets)
        return document

    def _remember(self, document: Mapping[str, Any], offsets: Offsets) -> Offsets:
        self._recent.appendleft((document, offsets))
        return offsets


def from_json(document: Mapping[str, Any]) -> Offsets:
    """Returns the offsets of a checkpoint's document, written by kfetch or by Spark's connector.

    Raises CheckpointError for a newer version and for any other document.
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
        left=_left_positions(document.get("left") or {}),
    )


def _left_positions(topics: Mapping[str, Any]) -> dict[TopicPartition, LeftPosition]:
    positions = {}
    for topic, entry in topics.items():
        topic_id = UUID(hex=entry["id"])
        for partition, (offset, epoch, left_at_s) in entry["partitions"].items():
            last = LeftPosition(topic_id, _position(offset, epoch), _number(left_at_s, lowest=0))
            positions[_partition(topic, partition)] = last
    return positions


def _from_connector(document: Mapping[str, Any]) -> Offsets:
    return Offsets(
        positions={
            _partition(topic, partition): Position(_number(offset, lowest=0))
            for topic, partitions in document.items()
            for partition, offset in partitions.items()
        },
        by_connector=True,
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


def _grouped(positions: Positions) -> dict[str, dict[str, list[int]]]:
    grouped: dict[str, dict[str, list[int]]] = {}
    for tp in sorted(positions):
        grouped.setdefault(tp.topic, {})[str(tp.partition)] = list(positions[tp])
    return grouped


def _left_topics(left: Mapping[TopicPartition, LeftPosition]) -> dict[str, Any]:
    """Returns the JSON of ``left``. All partitions of a topic left under one id."""
    topics: dict[str, Any] = {}
    for tp in sorted(left):
        topic_id, position, left_at_s = left[tp]
        entry = topics.setdefault(tp.topic, {"id": topic_id.hex, "partitions": {}})
        entry["partitions"][str(tp.partition)] = [*position, left_at_s]
    return topics


def _moved_topics(topics: Mapping[str, Any], moved: Positions) -> dict[str, Any]:
    """Returns the JSON of topics with moved positions, none added, so keys keep their order."""
    after = dict(topics)
    for tp, position in moved.items():
        entry = after[tp.topic]
        if entry is topics[tp.topic]:
            entry = after[tp.topic] = {**entry, "partitions": dict(entry["partitions"])}
        entry["partitions"][str(tp.partition)] = list(position)
    return after
