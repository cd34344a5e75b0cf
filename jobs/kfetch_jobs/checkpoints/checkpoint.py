"""Reads Spark's checkpoint of a query from this machine's disk.

``offsets/<batch>`` has a version line, a line of metadata, and a line per source. This line is the
end of the planned micro-batch, or ``-``. ``commits/<batch>`` exists once the batch is done. Spark
keeps the last hundred
(``spark.sql.streaming.minBatchesToRetain``). See OffsetSeqLog and CommitLog of Spark 4.2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kfetch.admin.values import Offsets, parse_offsets
from kfetch.errors import CheckpointError
from kfetch_jobs.checkpoints.location import local_directory
from kfetch_jobs.checkpoints.origin import check_environment
from kfetch_jobs.config import Job
from kfetch_jobs.errors import JobsError

__all__ = ["Checkpoint", "PlannedBatch", "job_checkpoint", "read_checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A micro-batch in the checkpoint's offset log."""

    number: int
    planned_s: float | None
    """When Spark planned the batch: seconds since 1970."""
    sources: tuple[Offsets | None, ...]
    """The end of the batch in each source; None for a source without an offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A query's progress. ``planned`` is None before the first micro-batch."""

    path: Path
    query: str = ""
    """The query's id; empty before its first start."""
    planned: PlannedBatch | None = None
    """The last planned batch."""
    committed: int | None = None
    """The number of the last batch that is done."""
    before: PlannedBatch | None = None
    """The batch before ``planned``, if the next run repeats ``planned``."""

    @property
    def pending(self) -> bool:
        """Whether the last planned batch is not done: the next run begins with it."""
        return self.planned is not None and self.planned.number != self.committed

    @property
    def sources(self) -> int:
        """The number of the query's sources; 0 before the first micro-batch."""
        return len(self.planned.sources) if self.planned else 0

    def end(self, source: int) -> Offsets | None:
        """Return the end of the last planned batch in a source."""
        return self.planned.sources[source] if self.planned else None

    def start(self, source: int) -> Offsets | None:
        """Return the offsets at which the next run goes on; None: at ``startingOffsets``."""
        if not self.pending:
            return self.end(source)
        if self.before is not None:
            return self.before.sources[source] if source < len(self.before.sources) else None
        return _first(self.end(source))


def _first(end: Offsets | None) -> Offsets | None:
    """The start of batch 0. Spark does not log it, but kfetch's end offset contains it."""
    if end is None or end.first_batch is None:
        return None
    return Offsets(positions=end.first_batch, topic_ids=end.topic_ids)


def job_checkpoint(job: Job) -> Checkpoint:
    """Return a job's checkpoint.

    Raises JobsError if it is not local, or unreadable, or if its runs had another environment.
    """
    path = local_directory(job)
    if path is None:
        raise JobsError(
            f"the checkpoint {job.checkpoint} is not on this machine, and kfetch reads those "
            "alone: copy its directories offsets and commits here, and name the copy in the job's "
            "file"
        )
    check_environment(job)
    return read_checkpoint(path)


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint in a directory; an empty one if there is none.

    This reads the commits first. So a running query can't add a commit whose plan this misses.
    """
    committed = _highest_number(path / "commits")
    last = _highest_number(path / "offsets")
    if last is None:
        if committed is not None:
            raise _unusable(path / "commits", "has commits, but offsets has no plan of them")
        return Checkpoint(path=path, query=_query(path))
    repeats = last != committed and last > 0
    return Checkpoint(
        path=path,
        query=_query(path),
        planned=_batch(path, last),
        committed=committed,
        before=_batch(path, last - 1) if repeats else None,
    )


def _highest_number(log: Path) -> int | None:
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
            sources=tuple(
                None if line == "-" else parse_offsets(json.loads(line)) for line in sources
            ),
        )
    except OSError as cause:
        raise JobsError(f"{file} can't be read: {cause.strerror}") from None
    except CheckpointError as cause:
        raise _unusable(file, f"can't be used: {cause.message}") from None
    except (ValueError, AttributeError, TypeError) as cause:
        raise _unusable(file, f"is no plan of a micro-batch ({cause})") from None


def _planned_s(metadata: str) -> float | None:
    planned_ms = json.loads(metadata or "{}").get("batchTimestampMs")
    return planned_ms / 1000 if planned_ms else None


def _unusable(file: Path, why: str) -> JobsError:
    return JobsError(
        f"the checkpoint's {file} {why}: restore the checkpoint's directory from a backup, or give "
        "the job a new one"
    )
