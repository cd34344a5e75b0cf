"""Counts requests, bytes and times of fetching for each job.

Agents on this machine report totals for each query, under Spark's query id. The job's pulse has the
same id. If a job sets ``kfetch.statsDirectory``, its files count in place of the agents' totals.
The files also cover readers without an agent, readers on other machines, and the driver.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from heapq import nlargest
from itertools import chain, islice
from pathlib import Path
from typing import Any

from kfetch.admin import agents
from kfetch.admin.agents import QueryStatus, Status
from kfetch.admin.query import FETCH_COUNTS, FetchStats
from kfetch.errors import DataLoss
from kfetch_jobs.metrics.growth import Growth
from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.supervise.status import JobStatus

_AGENT_TIMEOUT_S = 0.5
_ALL_AGENTS_TIMEOUT_S = 2.0
"""The limit for all agents together. Prometheus waits ten seconds for a scrape."""
_FILES_MAX = 10_000
"""The most files that it reads in a directory of statistics: those that changed last."""
_LOOKED_AT_MAX = 50_000
"""The most files of a directory whose times it compares. They take about a second."""
_READERS = ("executor", "driver")
_LOSSES = tuple(error.__name__ for error in DataLoss.__subclasses__())
"""Each has a sample from the start: a counter that starts at 1 shows no increase."""

_Key = tuple[str, ...]
"""Field of FetchStats; behind it, the topic and the name of a count by topic."""


class FetchMetrics:
    """Follows agents and files. Totals from before the first update do not count."""

    def __init__(self) -> None:
        self._growth = defaultdict[str, Growth[_Key]](Growth)
        self._sums = defaultdict[str, FetchStats](FetchStats)
        """By job and reader. They have the limits of FetchStats: producers choose names in them."""
        self._loss_growth = defaultdict[str, Growth[str]](Growth)
        self._losses = defaultdict[str, Counter[str]](Counter)
        self._changed: dict[str, int] = {}
        """Each file's time of change when it was last read, in nanoseconds."""
        self._agents: list[Status] = []

    def reset(self) -> None:
        """Set all counters to zero."""
        self._sums.clear()
        self._losses.clear()

    def update(self, jobs: Sequence[JobStatus]) -> None:
        """Ask the agents, and read changed files."""
        self._agents = find_agents()
        for job in jobs:
            if job.statistics:
                continue
            for status, query in readers_of(self._agents, job):
                self._add(f"{job.name} executor", (status.pid, query.name), asdict(query.totals))
        changed: dict[str, int] = {}
        for job in jobs:
            for directory in job.statistics:
                self._read(job.name, Path(directory), changed)
        self._changed = changed

    def _read(self, job: str, directory: Path, changed: dict[str, int]) -> None:
        for path, totals in self._changed_files(job, directory, changed):
            self._add(f"{job} executor", path, totals)
        for path, content in self._changed_files(job, directory / "driver", changed):
            self._add(f"{job} driver", path, content.get("watch"))
            losses = _numbers(content.get("losses"))
            self._losses[job].update(self._loss_growth[job].increase(path, losses))

    def _add(self, reader: str, part: Hashable, totals: object) -> None:
        """Add what a part of a reader has counted since the last update."""
        increase = self._growth[reader].increase(part, _flat(totals))
        self._sums[reader] += _nested(increase)

    def _changed_files(
        self, job: str, directory: Path, changed: dict[str, int]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields the readable files that have changed since the last update, with their content."""
        for changed_ns, path in _files(directory):
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
            sums = _flat(asdict(self._sums[f"{job.name} {reader}"]))
            for (field, *names), number in sorted(sums.items()):
                count = FETCH_COUNTS[field]
                values = (job.name, *(names or (reader, *count.label_values)))
                labels = dict(zip(count.metric.labels, values, strict=True))
                samples.put(count.metric.name, number, **labels)
        if job.statistics:
            losses = dict.fromkeys(_LOSSES, 0) | self._losses[job.name]
            for kind, number in sorted(losses.items()):
                samples.put("kfetch_job_losses_total", number, job_name=job.name, kind=kind)
        self._add_agent_samples(samples, job)

    def _add_agent_samples(self, samples: SampleSet, job: JobStatus) -> None:
        readers = readers_of(self._agents, job)
        statuses = list({status.pid: status for status, _ in readers}.values())
        for name, value in (
            ("kfetch_job_agents", len(statuses)),
            ("kfetch_job_agent_tasks", sum(one.workers for one in statuses)),
            ("kfetch_job_agent_memory_used_bytes", sum(one.memory_used for one in statuses)),
            ("kfetch_job_agent_memory_peak_bytes", sum(one.memory_peak for one in statuses)),
            ("kfetch_job_agent_memory_limit_bytes", sum(one.memory_limit for one in statuses)),
        ):
            samples.put(name, value, job_name=job.name)
        _add_session_samples(samples, job, [query for _, query in readers])


def find_agents() -> list[Status]:
    """Returns the agents of this machine. It waits two seconds at most."""
    return agents.find(_AGENT_TIMEOUT_S, _ALL_AGENTS_TIMEOUT_S)


def readers_of(found: Iterable[Status], job: JobStatus) -> list[tuple[Status, QueryStatus]]:
    """Returns the agents that read for a job, each with the job's query."""
    pairs = ((agent, query) for agent in found for query in agent.queries)
    return [pair for pair in pairs if job.query and pair[1].stream == job.query]


def _add_session_samples(
    samples: SampleSet, job: JobStatus, queries: Sequence[QueryStatus]
) -> None:
    sessions: Counter[tuple[str, str]] = Counter()
    partitions: Counter[str] = Counter()
    for session in chain.from_iterable(query.sessions for query in queries):
        sessions[session.broker, session.state.lower()] += 1
        partitions[session.broker] += session.partitions
    for (broker, state), number in sorted(sessions.items()):
        samples.put(
            "kfetch_job_fetch_sessions", number, job_name=job.name, broker=broker, state=state
        )
    for broker, number in sorted(partitions.items()):
        samples.put("kfetch_job_fetch_session_partitions", number, job_name=job.name, broker=broker)


def _files(directory: Path) -> list[tuple[int, str]]:
    """Returns time of change, in nanoseconds, and path of the JSON files, the newest last."""
    return nlargest(_FILES_MAX, islice(_all_files(directory), _LOOKED_AT_MAX))[::-1]


def _all_files(directory: Path) -> Iterator[tuple[int, str]]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith(".json"):
                    with suppress(OSError):
                        yield entry.stat().st_mtime_ns, entry.path
    except OSError:
        return  # no run has made the directory yet


def _flat(totals: object) -> dict[_Key, float]:
    """Returns the counts of a JSON object as one object; nothing for other values."""
    values = totals if isinstance(totals, dict) else {}
    return {
        key: number
        for field in FETCH_COUNTS
        for key, number in _by_key(field, values.get(field))
        if isinstance(number, int | float)
    }


def _nested(counts: Mapping[_Key, float]) -> FetchStats:
    """Returns counts as their object: the reverse of ``_flat``."""
    values: dict[str, Any] = {}
    for (field, *names), number in counts.items():
        if names:
            topic, name = names
            values.setdefault(field, {}).setdefault(topic, {})[name] = number
        else:
            values[field] = number
    return FetchStats(**values)


def _by_key(field: str, value: object) -> Iterator[tuple[_Key, object]]:
    if not FETCH_COUNTS[field].by_topic:
        yield (field,), value
    elif isinstance(value, dict):
        for topic, names in value.items():
            for name, number in _numbers(names).items():
                yield (field, topic, name), number


def _numbers(value: object) -> dict[str, float]:
    """Returns the numbers of a JSON object; nothing for other values."""
    if not isinstance(value, dict):
        return {}
    return {str(name): number for name, number in value.items() if isinstance(number, int | float)}
