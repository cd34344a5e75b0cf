"""Spark's checkpoint of a query, read as it lies on this machine's disk.

``offsets/<batch>`` has a version line, a line of metadata and a line per source: where the planned
micro-batch ends, or ``-``. ``commits/<batch>`` exists once it is done. Spark keeps the last hundred
(``spark.sql.streaming.minBatchesToRetain``). See OffsetSeqLog and CommitLog of Spark 4.2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kfetch.errors import CheckpointError
from kfetch.offsets import Offsets, from_json
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError

__all__ = ["Checkpoint", "PlannedBatch", "job_checkpoint", "local_directory", "read_checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A micro-batch as the offset log has it."""

    number: int
    planned_s: float | None
    """When it was planned: seconds since 1970."""
    sources: tuple[Offsets | None, ...]
    """Where each source ends; None for one without an offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A query's progress. ``planned`` is None if no micro-batch was planned yet."""

    path: Path
    query: str = ""
    """The query's id; empty before its first start."""
    planned: PlannedBatch | None = None
    """The last one that was planned."""
    committed: int | None = None
    """The last one that is done."""
    before: PlannedBatch | None = None
    """The one before ``planned``, if that has to run again."""

    @property
    def pending(self) -> bool:
        """Whether the last planned micro-batch isn't done: the next run begins with it."""
        return self.planned is not None and self.planned.number != self.committed

    @property
    def sources(self) -> int:
        """How many sources the query has; 0 if nobody knows yet."""
        return len(self.planned.sources) if self.planned else 0

    def end(self, source: int) -> Offsets | None:
        """Where the last planned micro-batch ends."""
        return self.planned.sources[source] if self.planned else None

    def start(self, source: int) -> Offsets | None:
        """Where the next run goes on; None if it begins at ``startingOffsets``."""
        if not self.pending:
            return self.end(source)
        if self.before is not None:
            return self.before.sources[source] if source < len(self.before.sources) else None
        return _first(self.end(source))


def _first(end: Offsets | None) -> Offsets | None:
    """Spark does not log where batch 0 starts; kfetch's end of it does."""
    if end is None or end.first_batch is None:
        return None
    return Offsets(positions=end.first_batch, topic_ids=end.topic_ids)


def job_checkpoint(job: Job) -> Checkpoint:
    """The checkpoint of a job. Raises JobsError for one on another file system, or unreadable."""
    path = local_directory(job)
    if path is None:
        raise JobsError(
            f"the checkpoint {job.checkpoint} is not on this machine, and kfetch reads those "
            "alone: copy its directories offsets and commits here, and name the copy in the job's "
            "file"
        )
    return read_checkpoint(path)


def local_directory(job: Job) -> Path | None:
    """Where a job's checkpoint is; None if it is on another file system."""
    if "://" not in job.checkpoint:
        return Path(job.checkpoint)
    parts = urlsplit(job.checkpoint)
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return Path(unquote(parts.path)) if local else None


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a directory; an empty one if there is none.

    Commits are read first: what a running query adds meanwhile can't be a commit without its plan.
    """
    committed = _last(path / "commits")
    last = _last(path / "offsets")
    if last is None:
        if committed is not None:
            raise _unusable(path / "commits", "has commits, but offsets has no plan of them")
        return Checkpoint(path=path, query=_query(path))
    again = last != committed and last > 0
    return Checkpoint(
        path=path,
        query=_query(path),
        planned=_batch(path, last),
        committed=committed,
        before=_batch(path, last - 1) if again else None,
    )


def _last(log: Path) -> int | None:
    try:
        return max((int(file.name) for file in log.iterdir() if file.name.isdigit()), default=None)
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise JobsError(f"{log} can't be read: {cause.strerror}") from None


def _query(path: Path) -> str:
    try:
        return str(json.loads((path / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _batch(path: Path, number: int) -> PlannedBatch:
    file = path / "offsets" / str(number)
    try:
        version, metadata, *sources = file.read_text().splitlines()
        if version != "v1":
            raise _unusable(file, f"is of version {version[:20]}, and this kfetch knows v1")
        return PlannedBatch(
            number=number,
            planned_s=_planned_s(metadata),
            sources=tuple(None if line == "-" else from_json(json.loads(line)) for line in sources),
        )
    except OSError as cause:
        raise JobsError(f"{file} can't be read: {cause.strerror}") from None
    except CheckpointError as cause:
        raise _unusable(file, f"can't be used: {cause.message}") from None
    except (ValueError, AttributeError, TypeError) as cause:
        raise _unusable(file, f"is no plan of a micro-batch ({cause})") from None


def _planned_s(metadata: str) -> float | None:
    told = json.loads(metadata or "{}").get("batchTimestampMs")
    return told / 1000 if told else None


def _unusable(file: Path, why: str) -> JobsError:
    return JobsError(
        f"the checkpoint's {file} {why}: restore the checkpoint's directory from a backup, or give "
        "the job a new one"
    )
