"""Adds the micro-batch to Spark's checkpoint that moves a job.

``offsets/<batch>`` has its end, where the next batch begins. ``commits/<batch>`` says that it is
done. So neither Spark nor Delta ever runs it. Its metadata (Spark settings, watermark) come from
the batch before. See OffsetSeqLog, CommitLog and MicroBatchExecution.populateStartOffsets
of Spark 4.2.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kfetch.admin.checkpoint import Checkpoint
from kfetch.admin.query import Offsets
from kfetch.storage.open import StoredPath
from kfetch.storage.versions import create
from kfetch_jobs.errors import JobsError
from kfetch_jobs.util.files import sync

_NO_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
"""The commit of a query's first batch without a watermark."""


def next_batch_number(checkpoint: Checkpoint) -> int:
    """Returns the number for the batch that moves a job. No batch has had this number."""
    planned = checkpoint.planned.number if checkpoint.planned else -1
    committed = -1 if checkpoint.committed is None else checkpoint.committed
    return max(planned, committed) + 1


def add_batch(checkpoint: Checkpoint, sources: Sequence[Offsets | None], now_s: float) -> int:
    """Add a batch that ends at ``sources`` behind the last one, and return its number."""
    assert checkpoint.planned is not None
    number = next_batch_number(checkpoint)
    before = checkpoint.path / "offsets" / str(checkpoint.planned.number)
    version, metadata, *_ = before.read_text().splitlines()
    stamped = json.dumps(json.loads(metadata or "{}") | {"batchTimestampMs": round(now_s * 1000)})
    ends = ["-" if end is None else json.dumps(end.to_json()) for end in sources]
    _write(checkpoint.path / "offsets" / str(number), "\n".join([version, stamped, *ends]))
    _write(checkpoint.path / "commits" / str(number), _commit(checkpoint))
    return number


def remove_batch(path: StoredPath, number: int) -> None:
    """Remove the last micro-batch of a checkpoint. A power cut does not bring it back."""
    for log in (path / "offsets", path / "commits"):
        (log / str(number)).unlink(missing_ok=True)
        (log / f".{number}.crc").unlink(missing_ok=True)
        if isinstance(log, Path) and log.is_dir():
            sync(log)


def _commit(checkpoint: Checkpoint) -> str:
    if checkpoint.committed is None:
        return _NO_COMMIT
    return (checkpoint.path / "commits" / str(checkpoint.committed)).read_text()


def _write(file: StoredPath, text: str) -> None:
    if not create(file, text.encode()):
        raise JobsError(f"{file} is there already: somebody else has written the checkpoint")
    if isinstance(file, Path):
        sync(file.parent, file.parent.parent)
