"""From Spark's progress reports to lines of progress.jsonl, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kfetch_jobs.progress import progress_file as progress
from kfetch_jobs.progress.batch import Batch, line_of, parse_line
from kfetch_jobs.progress.spark_progress import batch_from_spark

END = {"version": 1, "topics": {"t": {"id": "0" * 32, "partitions": {"0": [70, 1], "1": [30, 0]}}}}


LATEST = {
    "version": 1,
    "topics": {"t": {"id": "0" * 32, "partitions": {"0": [75, 1], "1": [30, 0]}}},
}


TOLD: dict[str, Any] = {
    "batchId": 4,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "numInputRows": 40,
    "durationMs": {"triggerExecution": 1500, "addBatch": 1000},
    "sources": [{"endOffset": END, "latestOffset": LATEST}],
}


def test_progress_is_told_in_totals() -> None:
    """A batch's offsets are sums over partitions; lag is what the source saw and did not read."""
    batch = batch_from_spark(TOLD, now=12.0)

    assert (4, 40, 1.5, 100, 105, 5) == (
        batch.batch,
        batch.rows,
        batch.seconds,
        batch.end,
        batch.latest,
        batch.lag,
    )
    assert {"addBatch": 1.0} == batch.phases


def test_rows_dropped_by_watermarks_are_counted() -> None:
    """Spark reports them for each operator with state. A line has the key if there are some."""
    operators = [{"numRowsDroppedByWatermark": 550}, {"operatorName": "dedupe"}]
    late = batch_from_spark(TOLD | {"stateOperators": operators}, now=1.0)

    assert 550 == late.late_rows
    assert late == parse_line(line_of(late))
    assert "late_rows" not in line_of(batch_from_spark(TOLD, now=1.0))


def test_progress_of_before_is_read() -> None:
    """A line that an earlier kfetch has written has no phases."""
    line = (
        '{"batch": 1, "started": "", "finished": 1.0, "rows": 2, "seconds": 0.5, "end": 3, '
        '"latest": 3, "lag": 0}\n'
    )
    batch = parse_line(line)

    assert isinstance(batch, Batch)
    assert (2, {}, 0.0) == (batch.rows, batch.phases, batch.lag_s)


@pytest.mark.parametrize("latest", [None, "null", json.dumps(LATEST)])
def test_offsets_may_be_text_or_missing(latest: str | None) -> None:
    """Spark gives offsets as objects or text; without a log end there is no lag to tell."""
    told = TOLD | {"sources": [{"endOffset": json.dumps(END), "latestOffset": latest}]}
    batch = batch_from_spark(told, now=12.0)

    assert (100, 5 if latest and latest != "null" else 0) == (batch.end, batch.lag)


def test_progress_survives_a_kill(tmp_path: Path) -> None:
    """What was appended is read back, but for a line that was cut off."""
    path = tmp_path / "progress.jsonl"
    assert [] == progress.read_batches(tmp_path)
    batches = [batch_from_spark(TOLD | {"batchId": n}, now=1.0) for n in range(3)]
    for batch in batches:
        progress.append_entry(tmp_path, batch)
    path.write_text(path.read_text() + '{"batch": 3, "sta')
    assert batches == progress.read_batches(tmp_path)

    progress.append_entry(tmp_path, batches[0])
    assert [*batches, batches[0]] == progress.read_batches(tmp_path)
    assert isinstance(progress.read_batches(tmp_path)[0], Batch)


def test_progress_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full file is put aside, and replaces the one that was put aside before."""
    monkeypatch.setattr(progress, "_BYTES_MAX", 1000)
    for number in range(100):
        progress.append_entry(tmp_path, batch_from_spark(TOLD | {"batchId": number}, now=1.0))
    read = [batch.batch for batch in progress.read_batches(tmp_path)]

    assert list(range(100 - len(read), 100)) == read
    assert 5 <= len(read) <= 20


def test_several_sources_are_added_up() -> None:
    """A job with two sources is as far behind as both together."""
    told = TOLD | {"sources": TOLD["sources"] * 2}

    assert (200, 10) == (
        batch_from_spark(told, now=1.0).end,
        batch_from_spark(told, now=1.0).lag,
    )
