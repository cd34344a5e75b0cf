"""From Spark's StreamingQueryProgress to a micro-batch of ``progress.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kfetch.admin.query import Offsets, parse_offsets
from kfetch_jobs.progress.batch import Batch


def batch_from_spark(
    progress: Mapping[str, Any],
    now: float,
    lag_s: float = 0.0,
    dead_letters: int = 0,
    dead_letter: str = "",
) -> Batch:
    """Returns the micro-batch of Spark's progress report.

    ``progress`` is the JSON of StreamingQueryProgress, ``now`` is in seconds since 1970.
    ``dead_letters`` and ``dead_letter``: those of ``Batch``.
    """
    ends = [_offset_sum(source.get("endOffset")) for source in progress["sources"]]
    log_ends = [_offset_sum(source.get("latestOffset")) for source in progress["sources"]]
    return Batch(
        batch=progress["batchId"],
        started=progress["timestamp"],
        finished=now,
        rows=progress["numInputRows"],
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        end=sum(ends),
        latest=sum(map(max, ends, log_ends)),
        lag_s=round(lag_s, 3),
        dead_letters=dead_letters,
        dead_letter=dead_letter,
        late_rows=sum(
            operator.get("numRowsDroppedByWatermark", 0)
            for operator in progress.get("stateOperators", ())
        ),
        phases={
            name: ms / 1000
            for name, ms in progress["durationMs"].items()
            if name != "triggerExecution"
        },
    )


def end_offsets(progress: Mapping[str, Any]) -> list[Offsets | None]:
    """Returns the end of the micro-batch in each source; None for a source without one."""
    return [_offsets(source.get("endOffset")) for source in progress["sources"]]


def _offset_sum(offset: Any) -> int:
    offsets = _offsets(offset)
    return sum(at.offset for at in offsets.positions.values()) if offsets else 0


def _offsets(offset: Any) -> Offsets | None:
    """Spark reports an offset as an object or as its JSON text; None before the first batch."""
    document = json.loads(offset) if isinstance(offset, str) else offset
    return parse_offsets(document) if document else None
