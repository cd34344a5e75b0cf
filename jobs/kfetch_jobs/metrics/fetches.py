"""Counts requests, bytes and times of fetching for each job.

Agents on this machine report totals for each query, under Spark's query id. The job's pulse has the
same id. If a job sets ``kfetch.statsDirectory``, its files count in place of the agents' totals.
The files also cover readers without an agent, readers on other machines, and the driver.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from kfetch.admin import agents
from kfetch.admin.agents import Status
from kfetch.errors import DataLoss
from kfetch_jobs.metrics.growth import GrowingSums
from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.supervise.status import JobStatus

_AGENT_TIMEOUT_S = 0.5
_ALL_AGENTS_TIMEOUT_S = 2.0
"""The limit for all agents together. Prometheus waits ten seconds for a scrape."""
_FILES_MAX = 10_000
"""The most files that it reads in a directory of statistics."""
_READERS = ("executor", "driver")
_LOSSES = tuple(error.__name__ for error in DataLoss.__subclasses__())
"""Each has a sample from the start: a counter that starts at 1 shows no increase."""

_TOTALS = (
    ("kfetch_job_fetch_requests_total", "full_requests", {"type": "full"}),
    ("kfetch_job_fetch_requests_total", "incremental_requests", {"type": "incremental"}),
    ("kfetch_job_fetch_request_bytes_total", "full_request_bytes", {"type": "full"}),
    ("kfetch_job_fetch_request_bytes_total", "incremental_request_bytes", {"type": "incremental"}),
    ("kfetch_job_fetch_response_bytes_total", "reply_bytes", {}),
    ("kfetch_job_fetch_other_rack_bytes_total", "other_rack_bytes", {}),
    ("kfetch_job_fetch_wait_seconds_total", "wait_s", {}),
    ("kfetch_job_fetch_records_total", "records", {}),
    ("kfetch_job_fetch_undecoded_records_total", "undecoded", {}),
    ("kfetch_job_fetch_decode_seconds_total", "decode_s", {}),
    ("kfetch_job_fetch_memory_wait_seconds_total", "starved_s", {}),
    ("kfetch_job_fetch_batches_skipped_total", "batches_skipped", {}),
    ("kfetch_job_fetch_connections_opened_total", "connections_opened", {}),
    *(
        ("kfetch_job_fetch_session_events_total", f"sessions_{event}", {"event": event})
        for event in ("opened", "lost", "refused", "closed")
    ),
)
"""Metric, field of FetchStats, further labels beside job and reader."""

_KINDS = {
    "undecoded_kinds": ("kfetch_job_fetch_undecoded_kinds_total", "kind"),
    "unknown_fields": ("kfetch_job_fetch_unknown_fields_total", "field"),
}
"""Metric, and its label beside job and topic, by fields of FetchStats."""


class FetchMetrics:
    """Follows agents and files. Totals from before the first update do not count."""

    def __init__(self) -> None:
        self._growth = GrowingSums()
        self._losses = GrowingSums()
        self._kinds = GrowingSums()
        self._changed: dict[str, int] = {}
        """Each file's time of change when it was last read, in nanoseconds."""
        self._agents: list[Status] = []

    def reset(self) -> None:
        """Set all counters to zero."""
        self._growth.reset()
        self._losses.reset()
        self._kinds.reset()

    def update(self, jobs: Sequence[JobStatus]) -> None:
        """Ask the agents, and read changed files."""
        self._agents = agents.find(_AGENT_TIMEOUT_S, _ALL_AGENTS_TIMEOUT_S)
        for job in jobs:
            if not job.statistics:
                self._update_from_agents(job)
        changed: dict[str, int] = {}
        for job in jobs:
            for directory in job.statistics:
                self._read(job.name, Path(directory), changed)
        self._changed = changed

    def _update_from_agents(self, job: JobStatus) -> None:
        for status in self._agents:
            for query in status.queries:
                if job.query and query.stream == job.query:
                    part = (status.pid, query.name)
                    self._update_readers(job.name, part, asdict(query.totals))

    def _update_readers(self, job: str, part: Hashable, totals: Mapping[str, Any]) -> None:
        self._growth.update(f"{job} executor", part, _numbers(totals))
        for field in _KINDS:
            self._kinds.update(f"{job} {field}", part, _flat(totals.get(field)))

    def _read(self, job: str, directory: Path, changed: dict[str, int]) -> None:
        for path, totals in self._changed_files(job, directory, changed):
            self._update_readers(job, path, totals)
        for path, content in self._changed_files(job, directory / "driver", changed):
            self._growth.update(f"{job} driver", path, _numbers(content.get("watch")))
            self._losses.update(job, path, _numbers(content.get("losses")))

    def _changed_files(
        self, job: str, directory: Path, changed: dict[str, int]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields the readable files that have changed since the last update, with their content."""
        for path, changed_ns in _files(directory):
            key = f"{job} {path}"
            if self._changed.get(key) != changed_ns:
                with suppress(OSError, ValueError):
                    content = json.loads(Path(path).read_text())
                    if isinstance(content, dict):
                        yield path, content
            changed[key] = changed_ns

    def add_samples(self, samples: SampleSet, job: JobStatus) -> None:
        """Add the samples of one job. Those of its driver come from files only."""
        for reader in _READERS[: 2 if job.statistics else 1]:
            sums = self._growth.sums(f"{job.name} {reader}")
            for name, field, labels in _TOTALS:
                samples.put(name, sums.get(field, 0), job_name=job.name, reader=reader, **labels)
        for field, (name, label) in _KINDS.items():
            for key, number in sorted(self._kinds.sums(f"{job.name} {field}").items()):
                topic, kind = json.loads(key)
                samples.put(name, number, job_name=job.name, topic=topic, **{label: kind})
        if job.statistics:
            losses = {**dict.fromkeys(_LOSSES, 0.0), **self._losses.sums(job.name)}
            for kind, number in sorted(losses.items()):
                samples.put("kfetch_job_losses_total", number, job_name=job.name, kind=kind)
        self._add_agent_samples(samples, job)

    def _add_agent_samples(self, samples: SampleSet, job: JobStatus) -> None:
        agents_of_job = [
            status
            for status in self._agents
            if job.query and any(query.stream == job.query for query in status.queries)
        ]
        for name, values in (
            ("kfetch_job_agents", [1 for _ in agents_of_job]),
            ("kfetch_job_agent_tasks", [status.workers for status in agents_of_job]),
            (
                "kfetch_job_agent_memory_used_bytes",
                [status.memory_used for status in agents_of_job],
            ),
            (
                "kfetch_job_agent_memory_peak_bytes",
                [status.memory_peak for status in agents_of_job],
            ),
            (
                "kfetch_job_agent_memory_limit_bytes",
                [status.memory_limit for status in agents_of_job],
            ),
        ):
            samples.put(name, sum(values), job_name=job.name)
        _add_session_samples(samples, job, agents_of_job)


def _add_session_samples(samples: SampleSet, job: JobStatus, statuses: Sequence[Status]) -> None:
    sessions: Counter[tuple[str, str]] = Counter()
    partitions: Counter[str] = Counter()
    for status in statuses:
        for query in status.queries:
            for session in query.sessions if query.stream == job.query else ():
                sessions[session.broker, session.state.lower()] += 1
                partitions[session.broker] += session.partitions
    for (broker, state), number in sorted(sessions.items()):
        samples.put(
            "kfetch_job_fetch_sessions", number, job_name=job.name, broker=broker, state=state
        )
    for broker, number in sorted(partitions.items()):
        samples.put("kfetch_job_fetch_session_partitions", number, job_name=job.name, broker=broker)


def _files(directory: Path) -> Iterator[tuple[str, int]]:
    """Yields path and time of change, in nanoseconds, of each JSON file."""
    try:
        with os.scandir(directory) as entries:
            for entry in islice(entries, _FILES_MAX):
                if entry.name.endswith(".json"):
                    with suppress(OSError):
                        yield entry.path, entry.stat().st_mtime_ns
    except OSError:
        return  # no run has made the directory yet


def _flat(kinds: object) -> dict[str, float]:
    """Returns counts by topic and kind as one object; nothing for other values."""
    topics = kinds.items() if isinstance(kinds, dict) else ()
    return {
        json.dumps([topic, kind]): number
        for topic, counts in topics
        for kind, number in _numbers(counts).items()
    }


def _numbers(value: object) -> dict[str, float]:
    """Returns the numbers of a JSON object; nothing for other values."""
    if not isinstance(value, dict):
        return {}
    return {str(name): number for name, number in value.items() if isinstance(number, int | float)}
