"""All metrics, and the samples of one collection.

Names and units follow Prometheus: base units, ``_total`` for counters, times in seconds since 1970.
docs/reference/metrics.md shows the table.
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

from kfetch.admin.query import FETCH_COUNTS

_JOB = ("job_name",)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table."""

    name: str
    meaning: str
    labels: tuple[str, ...] = _JOB

    @property
    def kind(self) -> str:
        """Prometheus's type."""
        if self.name in _HISTOGRAMS:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


_HISTOGRAMS = ("kfetch_job_batch_duration_seconds",)
_ENTRIES = (
    Entry("kfetch_supervisor_info", "Always 1.", ("version", "environment")),
    Entry("kfetch_supervisor_start_time_seconds", "Time at which the supervisor started.", ()),
    Entry("kfetch_supervisor_last_step_time_seconds", "Time of the last step of its loop.", ()),
    Entry(
        "kfetch_supervisor_leads",
        "1 if this host's supervisor leads. Without sharedState it always does.",
        (),
    ),
    Entry(
        "kfetch_metrics_collected_time_seconds", "Time at which these values were collected.", ()
    ),
    Entry("kfetch_metrics_collection_duration_seconds", "How long the collection took.", ()),
    Entry(
        "kfetch_metrics_collection_errors_total",
        "Failed collections of a part (jobs, runs, batches, fetches). The other parts have values.",
        ("part",),
    ),
    Entry("kfetch_job_enabled", "0 if its file disables it."),
    Entry("kfetch_job_file_valid", "0 if its file has a mistake."),
    Entry("kfetch_job_orphan", "1 if its file is gone, and it still runs or waits."),
    Entry("kfetch_job_healthy", "0 if it has a problem; `kfetch status` names it."),
    Entry("kfetch_job_state", "1 for its present state, 0 for the others.", ("job_name", "state")),
    Entry("kfetch_job_state_start_time_seconds", "Time at which that state started."),
    Entry("kfetch_job_next_run_time_seconds", "Time of its next run, if it waits for a time."),
    Entry("kfetch_job_consecutive_failures", "Failures in a row."),
    Entry("kfetch_job_runs_started_total", "Started runs: the first one and each restart."),
    Entry(
        "kfetch_job_runs_ended_total",
        "Ended runs by kind of end, as in `kfetch history`.",
        ("job_name", "kind"),
    ),
    Entry(
        "kfetch_job_lag_offsets", "Offsets that no committed micro-batch has; absent while unknown."
    ),
    Entry("kfetch_job_lag_seconds", "The next offset has waited at least so long."),
    Entry("kfetch_job_last_activity_time_seconds", "Time of its query's last sign of life."),
    Entry("kfetch_job_last_batch_id", "Last micro-batch of the running run."),
    Entry(
        "kfetch_job_unreachable_brokers",
        "Brokers that its query cannot reach, and leaders that are missing; absent without a run.",
    ),
    Entry(
        "kfetch_job_checkpoint_free_bytes",
        "Free space where its checkpoint lies; absent for a URI.",
    ),
    Entry("kfetch_job_checkpoint_size_bytes", "The whole space there."),
    Entry("kfetch_job_rows_total", "Records of committed micro-batches, dead letters included."),
    Entry(
        "kfetch_job_dead_letters_total",
        "Records that could not be decoded and went to the dead letters.",
    ),
    Entry(
        "kfetch_job_late_rows_total",
        "Rows that came later than a watermark allows. Spark dropped them.",
    ),
    Entry("kfetch_job_batch_duration_seconds", "Number and duration of committed micro-batches."),
    Entry(
        "kfetch_job_batch_phase_seconds_total",
        "Duration of Spark's phases: `latestOffset`, `queryPlanning`, `walCommit`, `addBatch`, …",
        ("job_name", "phase"),
    ),
    Entry(
        "kfetch_job_losses_total",
        "Losses that the driver has detected, by the name of the error.",
        ("job_name", "kind"),
    ),
    *(
        Entry(metric.name, metric.meaning, metric.labels)
        for metric in dict.fromkeys(count.metric for count in FETCH_COUNTS.values())
    ),
    Entry(
        "kfetch_job_fetch_sessions",
        "Fetch sessions that agents hold.",
        ("job_name", "broker", "state"),
    ),
    Entry(
        "kfetch_job_fetch_session_partitions",
        "Partitions in these sessions.",
        ("job_name", "broker"),
    ),
    Entry("kfetch_job_agents", "Agents on this machine that read for the job."),
    Entry("kfetch_job_agent_tasks", "Tasks that read through these agents now."),
    Entry("kfetch_job_agent_memory_used_bytes", "Memory that these agents use."),
    Entry("kfetch_job_agent_memory_peak_bytes", "The most memory that these agents have used."),
    Entry(
        "kfetch_job_agent_memory_limit_bytes", "The sum of `kfetch.agent.memory` over these agents."
    ),
)

METRICS: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}


class SampleSet:
    """Samples by metric family. A name or label that is not in the table raises KeyError."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def put(self, name: str, value: float | None, **labels: str) -> None:
        """Add a sample. None stands for an unknown value, and adds nothing."""
        if value is not None:
            family = self._family(name)
            assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
            family.add_metric(_values(name, labels), float(value))

    def histogram(
        self, name: str, buckets: Mapping[float, float], total: float, **labels: str
    ) -> None:
        """Add a histogram. ``buckets`` has the number of values up to each bound, infinity last."""
        family = self._family(name)
        assert isinstance(family, HistogramMetricFamily)
        samples = [
            ("+Inf" if bound == float("inf") else str(bound), n) for bound, n in buckets.items()
        ]
        family.add_metric(_values(name, labels), samples, total)

    def families(self) -> list[Metric]:
        """Returns the families with samples, in the order of the table."""
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
    """A file name may have bytes that are not UTF-8. One such label would break every scrape."""
    return text.encode(errors="backslashreplace").decode()
