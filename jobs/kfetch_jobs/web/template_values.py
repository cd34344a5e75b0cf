"""The values for the templates: a job's row on the first page, and its own page."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kfetch.admin.query import FetchStats
from kfetch_jobs.metrics.fetches import readers_of
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.partition_lags import PartitionLags
from kfetch_jobs.progress.reports import read_partition_lags
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.web.curve import WINDOWS
from kfetch_jobs.web.drawing import Bar, bars, sparkline
from kfetch_jobs.web.job_status import DisplayedStatus, displayed_status
from kfetch_jobs.web.snapshot import Observer, Snapshot

BATCHES_SHOWN = 12
BEHIND_SHOWN = 8
_ROWS_MAX = 10
_FIRST = next(iter(WINDOWS))

Rows = list[tuple[str, str, int]]
"""Topic, reason or field, number of records: the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job's row on the first page."""

    job: JobStatus
    status: DisplayedStatus
    rate: float | None = None
    """Rows per second in the last minute."""
    batch_s: float | None = None
    """Duration of the last micro-batch, in seconds."""
    dead_letters: int = 0
    """Dead letters of the micro-batches on its page."""
    dead_letter: str = ""
    """The newest of them that is known: its place, and why it could not be decoded."""
    lag_line: str = ""
    rate_line: str = ""
    """SVG paths, in the size that ``drawing`` sets."""


def job_rows(snapshot: Snapshot, observer: Observer) -> list[JobRow]:
    """Returns all jobs by name, in a stable order: nobody can click on a row that moves."""
    jobs = snapshot.overview.jobs if snapshot.overview else ()
    return [_row(job, snapshot, observer) for job in jobs]


def _row(job: JobStatus, snapshot: Snapshot, observer: Observer) -> JobRow:
    if job.name in snapshot.reading:
        return JobRow(job=job, status=displayed_status(job))
    points = observer.points(job.name, _FIRST, snapshot.at)
    last = observer.batches(job.name)[:BATCHES_SHOWN]
    return JobRow(
        job=job,
        status=displayed_status(job),
        rate=observer.rate(job.name, snapshot.at),
        batch_s=last[0].seconds if last else None,
        dead_letters=sum(batch.dead_letters for batch in last),
        dead_letter=next((batch.dead_letter for batch in last if batch.dead_letter), ""),
        lag_line=sparkline(points["lag"]),
        rate_line=sparkline(points["rows_s"]),
    )


def lagging_partitions(lags: PartitionLags) -> dict[str, object]:
    """Returns the table beside the heat map, for people who can't see the map.

    ``behind``: the number of partitions that are behind. ``worst``: the furthest behind, with
    topic, partition, offsets behind, seconds of waiting.
    """
    rows = [
        (topic.topic, *values)
        for topic in lags.topics
        for values in zip(topic.partitions, topic.behind, topic.waiting_s, strict=True)
    ]
    late = [row for row in rows if row[2] > 0]
    return {
        "partitions": len(rows) + lags.left_out,
        "behind": len(late),
        "worst": heapq.nlargest(BEHIND_SHOWN, late, key=lambda row: row[2]),
        "at": lags.at,
        "left_out": lags.left_out,
    }


def job_page(
    job: JobStatus, snapshot: Snapshot, observer: Observer, directory: Path
) -> dict[str, object]:
    """Returns the values of a job's page. ``directory`` has the job's files.

    ``reading``: whether its progress file is not read to its end yet. ``trouble``: the error, if
    the runs can't be read. ``agents``: the agents on this machine that read for the job.
    ``totals``: what these have counted. ``reasons``: why they could not decode keys and values.
    ``unknown_fields``: fields that schemas lack.
    """
    lags = read_partition_lags(directory)
    runs, trouble = observer.runs(job.name)
    reading = job.name in snapshot.reading
    readers = readers_of(snapshot.agents, job)
    totals = sum((query.totals for _, query in readers), FetchStats())
    return {
        "row": _row(job, snapshot, observer),
        "batches": batch_bars([] if reading else observer.batches(job.name)[:BATCHES_SHOWN]),
        "reading": reading,
        "runs": runs,
        "trouble": trouble,
        "lagging": lagging_partitions(lags) if lags else None,
        "agents": readers,
        "totals": totals,
        "reasons": most_frequent(totals.undecoded_kinds),
        "unknown_fields": most_frequent(totals.unknown_fields),
    }


def most_frequent(counts: Mapping[str, Mapping[str, int]]) -> Rows:
    """Returns the ten most frequent of the counts by topic and by name."""
    rows = [(topic, *item) for topic, names in counts.items() for item in names.items()]
    return heapq.nlargest(_ROWS_MAX, rows, key=lambda row: row[2])


def batch_bars(batches: Sequence[Batch]) -> list[tuple[Batch, list[Bar]]]:
    """Returns micro-batches with their phases. The longest one fills the picture."""
    longest_s = max((batch.seconds for batch in batches), default=0.0)
    return [(batch, bars(batch, longest_s)) for batch in batches]
