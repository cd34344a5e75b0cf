"""What the templates are given: a job as a row of the first page, and as a page of its own."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kfetch.agent.channel import QueryStatus, Status
from kfetch_jobs.progress.history import Batch
from kfetch_jobs.run import partitions
from kfetch_jobs.run.partitions import PartitionLags
from kfetch_jobs.supervise.store import Run
from kfetch_jobs.supervise.view import JobView
from kfetch_jobs.web.curve import WINDOWS
from kfetch_jobs.web.drawing import Bar, bars, sparkline
from kfetch_jobs.web.job_status import JobStatus, job_status
from kfetch_jobs.web.snapshot import Observer, Snapshot

__all__ = [
    "JobPage",
    "JobRow",
    "LaggingPartitions",
    "batch_bars",
    "job_page",
    "job_rows",
    "lagging_partitions",
]

BATCHES_SHOWN = 12
BEHIND_SHOWN = 8
_FIRST = next(iter(WINDOWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One line of the first page."""

    job: JobView
    status: JobStatus
    rate: float | None
    """Rows per second in the last minute."""
    batch_s: float | None
    """What the last micro-batch took."""
    dead_letters: int
    """Of the micro-batches that its page shows."""
    lag_line: str
    rate_line: str
    """Paths, for pictures as large as ``drawing`` says."""


def job_rows(snapshot: Snapshot, observer: Observer) -> list[JobRow]:
    """All jobs, by name: a line that jumps can't be clicked."""
    jobs = snapshot.overview.jobs if snapshot.overview else ()
    return [_row(job, snapshot, observer) for job in jobs]


def _row(job: JobView, snapshot: Snapshot, observer: Observer) -> JobRow:
    if job.name in snapshot.reading:
        return JobRow(
            job=job,
            status=job_status(job),
            rate=None,
            batch_s=None,
            dead_letters=0,
            lag_line="",
            rate_line="",
        )
    points = observer.points(job.name, _FIRST, snapshot.at)
    last = observer.batches(job.name)[:BATCHES_SHOWN]
    return JobRow(
        job=job,
        status=job_status(job),
        rate=observer.rate(job.name, snapshot.at),
        batch_s=last[0].seconds if last else None,
        dead_letters=sum(batch.dead_letters for batch in last),
        lag_line=sparkline(points["lag"]),
        rate_line=sparkline(points["rows_s"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaggingPartitions:
    """Partitions that are behind, the furthest first."""

    partitions: int
    behind: int
    """So many of them."""
    worst: tuple[tuple[str, int, int, float], ...]
    """Topic, partition, offsets, seconds."""
    at: float
    left_out: int


def lagging_partitions(lags: PartitionLags) -> LaggingPartitions:
    """The table beside the heat map, for who can't see it."""
    each = [
        (topic.topic, *one)
        for topic in lags.topics
        for one in zip(topic.partitions, topic.behind, topic.waiting_s, strict=True)
    ]
    late = [one for one in each if one[2] > 0]
    return LaggingPartitions(
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
    lagging: LaggingPartitions | None
    agents: list[tuple[Status, QueryStatus]]
    """The executors on this machine that read for it."""


def job_page(job: JobView, snapshot: Snapshot, observer: Observer, directory: Path) -> JobPage:
    """``directory`` is where the job keeps its files."""
    lags = partitions.read(partitions.file_of(directory))
    runs, trouble = observer.runs(job.name)
    reading = job.name in snapshot.reading
    return JobPage(
        row=_row(job, snapshot, observer),
        batches=batch_bars([] if reading else observer.batches(job.name)[:BATCHES_SHOWN]),
        reading=reading,
        runs=runs,
        trouble=trouble,
        lagging=lagging_partitions(lags) if lags else None,
        agents=[
            (agent, query)
            for agent in snapshot.agents
            for query in agent.queries
            if job.query and query.stream == job.query
        ],
    )


def batch_bars(batches: Sequence[Batch]) -> list[tuple[Batch, list[Bar]]]:
    """Each with its phases; the longest is as wide as the picture."""
    longest_s = max((batch.seconds for batch in batches), default=0.0)
    return [(batch, bars(batch, longest_s)) for batch in batches]
