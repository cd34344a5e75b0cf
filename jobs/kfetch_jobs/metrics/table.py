"""Every metric that there is, and the samples of one look at them.

``python -m kfetch_jobs.metrics.table`` prints the table that JOBS.md shows. Names and units are as
Prometheus wants them: base units, ``_total`` for counters, times in seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

__all__ = ["METRICS", "Entry", "SampleSet", "table"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table."""

    name: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def kind(self) -> str:
        """Prometheus's type."""
        if self.name in _HISTOGRAMS:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"

    @property
    def samples(self) -> tuple[str, ...]:
        """The names of its time series."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.name,)


_HISTOGRAMS = ("kfetch_job_batch_duration_seconds",)
_JOB = ("job_name",)
_READER = ("job_name", "reader")

_ENTRIES = (
    Entry("kfetch_supervisor_info", ("version", "environment"), "Always 1."),
    Entry("kfetch_supervisor_start_time_seconds", (), "When the supervisor came up."),
    Entry("kfetch_supervisor_last_step_time_seconds", (), "When its loop last went round."),
    Entry("kfetch_metrics_collected_time_seconds", (), "When these figures were taken."),
    Entry("kfetch_metrics_collection_duration_seconds", (), "How long that took."),
    Entry(
        "kfetch_metrics_collection_errors_total",
        ("part",),
        "Looks at a part (jobs, runs, batches, fetches) that failed; the other parts are there.",
    ),
    Entry("kfetch_job_enabled", _JOB, "0: by its file the supervisor leaves it alone."),
    Entry("kfetch_job_file_valid", _JOB, "0: its file has a mistake."),
    Entry("kfetch_job_healthy", _JOB, "0: `kfetch status` says why."),
    Entry(
        "kfetch_job_state", ("job_name", "state"), "1 for the state that it is in, 0 for others."
    ),
    Entry("kfetch_job_state_start_time_seconds", _JOB, "Since when it is in that state."),
    Entry("kfetch_job_next_run_time_seconds", _JOB, "When it is due, if it waits for a time."),
    Entry("kfetch_job_consecutive_failures", _JOB, "Failures in a row."),
    Entry("kfetch_job_runs_started_total", _JOB, "Runs started: the first, and each restart."),
    Entry(
        "kfetch_job_runs_ended_total", ("job_name", "kind"), "Runs ended, by how: see `history`."
    ),
    Entry(
        "kfetch_job_lag_offsets",
        _JOB,
        "Offsets behind the log's end at the last micro-batch; absent while nobody knows.",
    ),
    Entry("kfetch_job_lag_seconds", _JOB, "For so long at least the next offset has been waiting."),
    Entry("kfetch_job_last_activity_time_seconds", _JOB, "When its query last said anything."),
    Entry("kfetch_job_last_batch_id", _JOB, "Of the run that goes on."),
    Entry("kfetch_job_rows_total", _JOB, "Rows of committed micro-batches."),
    Entry(
        "kfetch_job_dead_letters_total",
        _JOB,
        "Of these, those that could not be decoded and are in the job's dead letters.",
    ),
    Entry("kfetch_job_batch_duration_seconds", _JOB, "Committed micro-batches: number and time."),
    Entry(
        "kfetch_job_batch_phase_seconds_total",
        ("job_name", "phase"),
        "Time by Spark's phases: `latestOffset`, `queryPlanning`, `walCommit`, `addBatch`, …",
    ),
    Entry(
        "kfetch_job_losses_total",
        ("job_name", "kind"),
        "Losses that the driver has found, by the name of the error.",
    ),
    Entry(
        "kfetch_job_fetch_requests_total",
        ("job_name", "reader", "type"),
        "Fetch requests; `full` ones named every partition, `incremental` ones what changed.",
    ),
    Entry("kfetch_job_fetch_request_bytes_total", ("job_name", "reader", "type"), "Their size."),
    Entry("kfetch_job_fetch_response_bytes_total", _READER, "Size of the replies."),
    Entry("kfetch_job_fetch_wait_seconds_total", _READER, "Between a request and its reply."),
    Entry("kfetch_job_fetch_records_total", _READER, "Records decoded."),
    Entry("kfetch_job_fetch_decode_seconds_total", _READER, "Time that decoding took."),
    Entry("kfetch_job_fetch_memory_wait_seconds_total", _READER, "Waiting for agent memory."),
    Entry("kfetch_job_fetch_batches_skipped_total", _READER, "Damaged record batches left out."),
    Entry("kfetch_job_fetch_connections_opened_total", _READER, "Connections to brokers."),
    Entry(
        "kfetch_job_fetch_session_events_total",
        ("job_name", "reader", "event"),
        "Fetch sessions `opened`, `lost` (evicted, or gone with their broker), `refused` (the "
        "broker's cache was full), `closed`.",
    ),
    Entry(
        "kfetch_job_fetch_sessions", ("job_name", "broker", "state"), "Sessions that agents hold."
    ),
    Entry("kfetch_job_fetch_session_partitions", ("job_name", "broker"), "Partitions in them."),
    Entry("kfetch_job_agents", _JOB, "Agents on this machine that read for it."),
    Entry("kfetch_job_agent_tasks", _JOB, "Tasks that read through them now."),
    Entry("kfetch_job_agent_memory_used_bytes", _JOB, "Their memory in use."),
    Entry("kfetch_job_agent_memory_peak_bytes", _JOB, "The most that was in use."),
    Entry("kfetch_job_agent_memory_limit_bytes", _JOB, "`kfetch.agent.memory`, of all of them."),
)

METRICS: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}


class SampleSet:
    """Samples, family by family. A name or label that is not in the table raises KeyError."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def put(self, name: str, value: float | None, **labels: str) -> None:
        """Add a sample; None is what nobody knows, and adds none."""
        if value is not None:
            family = self._family(name)
            assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
            family.add_metric(_values(name, labels), float(value))

    def histogram(
        self, name: str, buckets: Mapping[float, float], total: float, **labels: str
    ) -> None:
        """Add a histogram: how many were at most so large, by bound; the last one is infinite."""
        family = self._family(name)
        assert isinstance(family, HistogramMetricFamily)
        told = [
            ("+Inf" if bound == float("inf") else str(bound), n) for bound, n in buckets.items()
        ]
        family.add_metric(_values(name, labels), told, total)

    def families(self) -> list[Metric]:
        """All that was put, in the order of the table."""
        return [self._families[name] for name in METRICS if name in self._families]

    def _family(self, name: str) -> Metric:
        if name not in self._families:
            entry = METRICS[name]
            self._families[name] = _TYPES[entry.kind](name, entry.meaning, labels=entry.labels)
        return self._families[name]


_TYPES = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _values(name: str, labels: Mapping[str, str]) -> list[str]:
    expected = METRICS[name].labels
    if set(expected) != set(labels):
        raise KeyError(f"{name} has the labels {expected}, not {tuple(labels)}")
    return [_encodable(labels[label]) for label in expected]


def _encodable(text: str) -> str:
    """A file's name may have bytes that are no UTF-8; one such label would break every scrape."""
    return text.encode(errors="backslashreplace").decode()


def table() -> str:
    """The table of JOBS.md."""
    rows = [
        f"| `{entry.name}` | {entry.kind} | {', '.join(f'`{name}`' for name in entry.labels)} "
        f"| {entry.meaning} |\n"
        for entry in METRICS.values()
    ]
    return "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    print(table(), end="")
