"""Formats checkpoints for ``kfetch checkpoint``: lines for people, JSON for scripts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfetch.admin.checkpoint import Checkpoint
from kfetch.admin.offset_log import SourceLine, Writer, connector_json
from kfetch.admin.query import Offsets, Position
from kfetch.model import TopicPartition
from kfetch.storage.lease import Lease

if TYPE_CHECKING:  # `show` needs no sockets
    from kfetch.admin.checkpoint_check import SourceCheck
    from kfetch.admin.to_connector import Conversion

_PARTITIONS_MAX = 10
"""More partitions of a topic are only counted."""
_WRITERS = {
    Writer.KFETCH: "offsets of kfetch",
    Writer.CONNECTOR: "offsets of Spark's Kafka connector",
    Writer.OTHER: "offsets of a source that is not Kafka",
    Writer.NONE: "no offset yet",
}


def checkpoint_json(checkpoint: Checkpoint, lease: Lease | None) -> dict[str, Any]:
    """Returns a checkpoint's state, with every partition. ``lease``: None without one."""
    planned = checkpoint.planned
    return {
        "path": str(checkpoint.path),
        "query": checkpoint.query,
        "planned": planned.number if planned else None,
        "planned_s": planned.planned_s if planned else None,
        "committed": checkpoint.committed,
        "pending": checkpoint.pending,
        "lease": None if lease is None else _lease_json(lease),
        "version": planned.version if planned else None,
        "sources": [
            _source_json(checkpoint, number, line) for number, line in enumerate(checkpoint.lines)
        ],
        "next": [*_next(checkpoint)],
    }


def _lease_json(lease: Lease) -> dict[str, Any]:
    holder = lease.holder
    return {
        "epoch": lease.epoch,
        "since_s": lease.since_s,
        "host": holder.host if holder else None,
        "pid": holder.pid if holder else None,
        "purpose": holder.purpose if holder else None,
    }


def _source_json(checkpoint: Checkpoint, number: int, line: SourceLine) -> dict[str, Any]:
    start, end = checkpoint.start(number), line.offsets
    return {
        "name": line.name,
        "writer": line.writer.value,
        "topic_ids": {name: id_.hex for name, id_ in (end.topic_ids if end else {}).items()},
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "start": start.positions[tp].offset if start and tp in start.positions else None,
                "end": position.offset,
                "leader_epoch": position.leader_epoch if position.leader_epoch >= 0 else None,
            }
            for tp, position in sorted(end.positions.items() if end else ())
        ],
        "left": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "topic_id": left.topic_id.hex,
                "offset": left.position.offset,
                "leader_epoch": left.position.leader_epoch,
                "left_s": left.left_at_s,
            }
            for tp, left in sorted(end.left.items() if end else ())
        ],
    }


def checkpoint_lines(
    checkpoint: Checkpoint, lease: Lease | None, all_partitions: bool
) -> Iterator[str]:
    """Yields the lines about a checkpoint. The last ones say what the next start does."""
    yield f"checkpoint {checkpoint.path}, query {checkpoint.query or 'without an id'}"
    if lease is not None:
        yield f"held by {lease.holder or 'nobody'} since {lease.since}"
    yield _batches(checkpoint)
    for number, line in enumerate(checkpoint.lines):
        yield f"source {line.name}: {_WRITERS[line.writer]}"
        if line.offsets is not None:
            start = checkpoint.start(number) if checkpoint.pending else None
            yield from _offset_lines(line.offsets, start, all_partitions)
    yield from _next(checkpoint)


def _batches(checkpoint: Checkpoint) -> str:
    planned = checkpoint.planned
    if planned is None:
        return "no micro-batch is planned"
    at = "" if planned.planned_s is None else f", planned {_clock(planned.planned_s)}"
    state = "not done: the next start runs it again" if checkpoint.pending else "done"
    return f"last micro-batch: {planned.number}{at}, {state}"


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def _offset_lines(offsets: Offsets, start: Offsets | None, all_partitions: bool) -> Iterator[str]:
    topics: dict[str, list[TopicPartition]] = {}
    for tp in sorted(offsets.positions):
        topics.setdefault(tp.topic, []).append(tp)
    for topic, partitions in topics.items():
        id_ = offsets.topic_ids.get(topic)
        yield f"  {topic}, {f'id {id_.hex}' if id_ else 'no id'}, {_partitions(len(partitions))}"
        shown = partitions if all_partitions else partitions[:_PARTITIONS_MAX]
        for tp in shown:
            yield f"    {tp.partition}: {_offset(tp, offsets, start)}"
        if len(shown) < len(partitions):
            yield f"    and {len(partitions) - len(shown):,} more; --all lists them"
    for tp, left in sorted(offsets.left.items()):
        yield (
            f"  left: {tp} at {left.position.offset}, id {left.topic_id.hex}, "
            f"{_clock(left.left_at_s)}"
        )


def _offset(tp: TopicPartition, end: Offsets, start: Offsets | None) -> str:
    position: Position = end.positions[tp]
    epoch = f", epoch {position.leader_epoch}" if position.leader_epoch >= 0 else ""
    begin = start.positions.get(tp) if start else None
    prefix = f"{begin.offset} to " if begin and begin.offset != position.offset else ""
    return f"{prefix}{position.offset}{epoch}"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _next(checkpoint: Checkpoint) -> Iterator[str]:
    """Yields what the next start does, with either source."""
    writers = {line.writer for line in checkpoint.lines}
    if Writer.CONNECTOR in writers and Writer.KFETCH not in writers:
        yield 'The next start with format("kfetch") or format("kafka") continues here.'
    if Writer.KFETCH in writers:
        yield 'The next start with format("kfetch") continues here.'
        yield (
            'For format("kafka"), stop the query and run '
            f"kfetch checkpoint to-kafka {checkpoint.path}"
        )
    for name, start in checkpoint.starts_unknown_to_kfetch().items():
        starting = connector_json(start.positions) if start.positions else "earliest"
        yield (
            f"Source {name}: the first batch of Spark's connector is not done, and kfetch does not "
            "see where it starts. Let the connector finish it, or start kfetch with the option "
            f"startingOffsets={starting}"
        )


def checks_json(checkpoint: Checkpoint, checks: Sequence[SourceCheck]) -> dict[str, Any]:
    """Returns the results of a check."""
    return {"path": str(checkpoint.path), "sources": [asdict(check) for check in checks]}


def check_lines(checks: Sequence[SourceCheck]) -> Iterator[str]:
    """Yields the lines about the sources of a check."""
    if not checks:
        yield "the checkpoint has no offsets of Kafka, so there is nothing to compare"
    for check in checks:
        behind = "" if check.behind is None else f", {check.behind:,} offsets behind the log ends"
        fits = "does not fit the logs" if check.findings else "fits the logs"
        yield f"source {check.name}: {_partitions(check.partitions)}{behind}, {fits}"
        yield from (f"  {finding.sentence} [{finding.code}]" for finding in check.findings)
        yield from (f"  note: {note}" for note in check.notes)


def conversion_json(conversion: Conversion) -> dict[str, Any]:
    """Returns what ``to-kafka`` did."""
    return {
        "files": [str(file) for file in conversion.files],
        "sources": [*conversion.sources],
        "backup": str(conversion.backup) if conversion.backup else None,
        "forgotten": dict(conversion.forgotten or {}),
    }


def conversion_lines(path: Path, conversion: Conversion) -> Iterator[str]:
    """Yields the lines about what ``to-kafka`` did."""
    if not conversion.files:
        yield f"{path} has no offsets of kfetch, so it stays as it is"
        return
    yield f"backup: {conversion.backup}"
    yield from (f"written: {file}" for file in conversion.files)
    for topic, partitions in (conversion.forgotten or {}).items():
        yield (
            f"note: {topic} left the query ({_partitions(partitions)}). The connector does not "
            "keep its last position. If the topic comes back, it reads it from the log start"
        )
    sources = "Source" if len(conversion.sources) == 1 else "Sources"
    yield (
        f'{sources} {", ".join(conversion.sources)}: change format("kfetch") to format("kafka"), '
        "and remove the options that only kfetch has, such as kfetch.*, columns and valueFormat"
    )
