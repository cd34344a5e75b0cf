"""What the templates are given: a job as a row of the first page, and as a page of its own."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kfetch.admin.agents import QueryStatus, Status
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.run import partition_lags
from kfetch_jobs.run.partition_lags import PartitionLags
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.supervise.store import Run
from kfetch_jobs.web.curve import WINDOWS
from kfetch_jobs.web.drawing import Bar, bars, spark
from kfetch_jobs.web.seen import Eyes, Seen
from kfetch_jobs.web.standing import Standing, standing

__all__ = ["Behind", "JobPage", "JobRow", "batch_bars", "behind", "job_page", "rows"]

BATCHES_SHOWN = 12
BEHIND_SHOWN = 8
_FIRST = next(iter(WINDOWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One line of the first page."""

    job: JobStatus
    standing: Standing
    rate: float | None
    """Rows per second in the last minute."""
    batch_s: float | None
    """What the last micro-batch took."""
    dead_letters: int
    """Of the micro-batches that its page shows."""
    lag_line: str
    rate_line: str
    """Paths, for pictures as large as ``drawing`` says."""


def rows(seen: Seen, eyes: Eyes) -> list[JobRow]:
    """All jobs, by name: a line that jumps can't be clicked."""
    jobs = seen.overview.jobs if seen.overview else ()
    return [_row(job, seen, eyes) for job in jobs]


def _row(job: JobStatus, seen: Seen, eyes: Eyes) -> JobRow:
    if job.name in seen.reading:
        return JobRow(
            job=job,
            standing=standing(job),
            rate=None,
            batch_s=None,
            dead_letters=0,
            lag_line="",
            rate_line="",
        )
    points = eyes.points(job.name, _FIRST, seen.at)
    last = eyes.batches(job.name)[:BATCHES_SHOWN]
    return JobRow(
        job=job,
        standing=standing(job),
        rate=eyes.rate(job.name, seen.at),
        batch_s=last[0].seconds if last else None,
        dead_letters=sum(batch.dead_letters for batch in last),
        lag_line=spark(points["lag"]),
        rate_line=spark(points["rows_s"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Partitions that are behind, the furthest first."""

    partitions: int
    behind: int
    """So many of them."""
    worst: tuple[tuple[str, int, int, float], ...]
    """Topic, partition, offsets, seconds."""
    at: float
    left_out: int


def behind(lags: PartitionLags) -> Behind:
    """The table beside the heat map, for who can't see it."""
    each = [
        (topic.topic, *one)
        for topic in lags.topics
        for one in zip(topic.partitions, topic.behind, topic.waiting_s, strict=True)
    ]
    late = [one for one in each if one[2] > 0]
    return Behind(
        partitions=len(each) + lags.left_out,
        behind=len(late),
        worst=tuple(heapq.nlargest(BEHIND_SHOWN, late, key=lambda one: one[2])),
        at=lags.at,
        left_out=lags.left_out,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Everything about one job."""

    row: JobRow
    batches: list[tuple[Batch, list[Bar]]]
    reading: bool
    """Whether its history is still being read."""
    runs: list[Run]
    trouble: str
    """Why there are no runs."""
    behind: Behind | None
    agents: list[tuple[Status, QueryStatus]]
    """The executors on this machine that read for it."""


def job_page(job: JobStatus, seen: Seen, eyes: Eyes, directory: Path) -> JobPage:
    """``directory`` is where the job keeps its files."""
    lags = partition_lags.read(partition_lags.partitions_path(directory))
    runs, trouble = eyes.runs(job.name)
    reading = job.name in seen.reading
    return JobPage(
        row=_row(job, seen, eyes),
        batches=batch_bars([] if reading else eyes.batches(job.name)[:BATCHES_SHOWN]),
        reading=reading,
        runs=runs,
        trouble=trouble,
        behind=behind(lags) if lags else None,
        agents=[
            (status, query)
            for status in seen.agents
            for query in status.queries
            if job.query and query.stream == job.query
        ],
    )


def batch_bars(batches: Sequence[Batch]) -> list[tuple[Batch, list[Bar]]]:
    """Each with its phases; the longest is as wide as the picture."""
    longest_s = max((batch.seconds for batch in batches), default=0.0)
    return [(batch, bars(batch, longest_s)) for batch in batches]
