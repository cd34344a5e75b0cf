"""From Spark's StreamingQueryProgress to a micro-batch of ``progress.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kfetch.admin.values import parse_offsets
from kfetch_jobs.progress.batch import Batch

__all__ = ["batch_from_spark"]


def batch_from_spark(
    progress: Mapping[str, Any],
    now: float,
    lag_s: float = 0.0,
    dead_letters: int = 0,
    dead_letter: str = "",
) -> Batch:
    """Return the micro-batch of Spark's progress report.

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


def _offset_sum(offset: Any) -> int:
    """Spark reports an offset as an object or as its JSON text; None before the first batch."""
    document = json.loads(offset) if isinstance(offset, str) else offset
    if not document:
        return 0
    return sum(position.offset for position in parse_offsets(document).positions.values())
