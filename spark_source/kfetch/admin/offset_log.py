"""The text of Spark's checkpoint files: what a micro-batch's plan says of each source. Pure.

``offsets/<batch>`` has a version line, a line of metadata, and a line per source: the end of the
planned micro-batch as JSON, or ``-``.

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1795335036000,"conf":{…}}
    {"clicks":{"0":1200}}
    -

Version 2 puts the source's name and a colon in front of each offset. ``sources/<source>/0`` holds
the start of batch 0: a zero byte, ``v1`` and the JSON. Only Spark's connector writes this file.
See OffsetSeqLog, KafkaSourceInitialOffsetWriter and JsonUtils of Spark 4.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from kfetch.errors import CheckpointError
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position, from_json

NO_OFFSET = "-"
"""The line of a source without an offset (OffsetSeqLog.SERIALIZED_VOID_OFFSET)."""
_VERSIONS = ("v1", "v2")
_INITIAL_HEAD = "\x00v1\n"
"""The zero byte was for Spark 2.1.0 (SPARK-19517)."""


class Writer(StrEnum):
    """The source that wrote an offset."""

    KFETCH = "kfetch"
    CONNECTOR = "kafka"
    OTHER = "other"
    NONE = "none"
    """The source has no offset yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """The line of one source in a micro-batch's plan."""

    name: str
    """Its number in the query, or its name in version 2. Its directory below ``sources``."""
    text: str
    """The offset's JSON, or ``-``."""
    writer: Writer
    offsets: Offsets | None
    """None for a source without an offset, and for a source that is not Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A micro-batch in the checkpoint's offset log."""

    number: int
    planned_s: float | None
    """When Spark planned the batch: seconds since 1970."""
    sources: tuple[Offsets | None, ...]
    """The end of the batch in each source; None for a source without an offset of Kafka."""
    version: str
    metadata: str
    """The second line, as it is."""
    lines: tuple[SourceLine, ...]

    def with_connector_offsets(self) -> PlannedBatch:
        """Returns the batch with kfetch's offsets in the form of Spark's connector."""
        lines = tuple(_for_connector(line) for line in self.lines)
        return replace(self, lines=lines, sources=tuple(line.offsets for line in lines))

    def text(self) -> str:
        """Returns the text of the batch's file."""
        named = self.version != "v1"
        lines = [f"{line.name}:{line.text}" if named else line.text for line in self.lines]
        return "\n".join([self.version, self.metadata, *lines])


def parse_batch(number: int, text: str) -> PlannedBatch:
    """Parse ``offsets/<number>``. Raises CheckpointError with a ``what`` that begins with a verb.

    The caller puts the file's name in front.
    """
    version, *rest = text.removesuffix("\n").split("\n")
    if not version:
        raise CheckpointError("is empty")
    if version not in _VERSIONS:
        raise CheckpointError(f"is of version {version[:20]}, and this kfetch knows v1 and v2")
    if len(rest) < 2:
        raise CheckpointError("is no plan of a micro-batch (it has no line of a source)")
    metadata, *texts = rest
    try:
        lines = tuple(_source_line(*named) for named in _named(version, texts))
        planned_s = _planned_s(metadata)
    except (ValueError, AttributeError, TypeError) as cause:
        raise CheckpointError(f"is no plan of a micro-batch ({cause})") from None
    return PlannedBatch(
        number=number,
        planned_s=planned_s,
        sources=tuple(line.offsets for line in lines),
        version=version,
        metadata=metadata,
        lines=lines,
    )


def _named(version: str, texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    if version == "v1":
        return [(str(number), text) for number, text in enumerate(texts)]
    pairs = [text.partition(":") for text in texts]
    if not all(colon for _, colon, _ in pairs):
        raise ValueError("a line has no name of its source")
    return [(name, text) for name, _, text in pairs]


def _source_line(name: str, text: str) -> SourceLine:
    writer, offsets = Writer.NONE, None
    if text != NO_OFFSET:
        document = json.loads(text)
        writer = _writer(document)
        offsets = None if writer is Writer.OTHER else _offsets(document)
    return SourceLine(name=name, text=text, writer=writer, offsets=offsets)


def _writer(document: object) -> Writer:
    """Returns the source that wrote an offset. Every source has JSON of its own."""
    if not isinstance(document, dict):
        return Writer.OTHER
    if type(document.get("version")) is int:
        return Writer.KFETCH if "topics" in document or len(document) == 1 else Writer.OTHER
    if all(isinstance(of_topic, dict) for of_topic in document.values()):
        return Writer.CONNECTOR if _all_offsets(document) else Writer.OTHER
    return Writer.OTHER


def _all_offsets(topics: Mapping[str, Mapping[str, object]]) -> bool:
    """Returns whether a document has the form ``{topic: {partition: offset}}``."""
    return all(
        partition.isdecimal() and type(offset) is int
        for partitions in topics.values()
        for partition, offset in partitions.items()
    )


def _offsets(document: Mapping[str, Any]) -> Offsets:
    try:
        return from_json(document)
    except CheckpointError as cause:
        raise CheckpointError(f"can't be used: {cause.what}", action=cause.action) from None


def _planned_s(metadata: str) -> float | None:
    planned_ms = json.loads(metadata or "{}").get("batchTimestampMs")
    return planned_ms / 1000 if planned_ms else None


def _for_connector(line: SourceLine) -> SourceLine:
    if line.writer is not Writer.KFETCH or line.offsets is None:
        return line
    positions = {tp: Position(at.offset) for tp, at in line.offsets.positions.items()}
    return SourceLine(
        name=line.name,
        text=connector_json(line.offsets.positions),
        writer=Writer.CONNECTOR,
        offsets=Offsets(positions=positions),
    )


def connector_json(positions: Mapping[TopicPartition, Position]) -> str:
    """Returns offsets as Spark's connector writes them: the next offset to read, by partition."""
    topics: dict[str, dict[str, int]] = {}
    for tp in sorted(positions):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = positions[tp].offset
    return json.dumps(topics, separators=(",", ":"))


def parse_initial(text: str) -> Offsets:
    """Parse ``sources/<source>/0`` of Spark's connector. Raises CheckpointError, as parse_batch."""
    version, _, document = text.removeprefix("\x00").partition("\n")
    if version.startswith("{"):  # Spark 2.1.0 wrote no version
        version, document = "v1", version
    if version != "v1":
        raise CheckpointError(f"is of version {version[:20]}, and this kfetch knows v1")
    try:
        topics = json.loads(document)
        if _writer(topics) is not Writer.CONNECTOR:
            raise ValueError(f"no offsets of Spark's connector: {document[:100]}")
    except ValueError as cause:
        raise CheckpointError(f"holds no start of a query ({cause})") from None
    return _offsets(topics)


def initial_text(positions: Mapping[TopicPartition, Position]) -> str:
    """Returns the text of ``sources/<source>/0``: the start of batch 0."""
    return _INITIAL_HEAD + connector_json(positions)
