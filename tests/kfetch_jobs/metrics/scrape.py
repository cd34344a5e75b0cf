"""A micro-batch, and what Prometheus reads of the metrics: samples by name and labels."""

from __future__ import annotations

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kfetch_jobs.metrics.collect import CollectedMetrics
from kfetch_jobs.metrics.table import Entry
from kfetch_jobs.progress.batch import Batch

BATCH = Batch(
    batch=1,
    started="2026-01-01T00:00:00.000Z",
    finished=1.0,
    rows=10,
    seconds=0.3,
    end=10,
    latest=15,
    phases={"addBatch": 0.2},
)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series_of(entry: Entry) -> list[str]:
    """Returns the names of a metric's time series."""
    parts = ("_bucket", "_sum", "_count") if entry.kind == "histogram" else ("",)
    return [f"{entry.name}{part}" for part in parts]


def scraped(metrics: CollectedMetrics) -> Samples:
    """Returns the samples that Prometheus parses."""
    families = text_string_to_metric_families(generate_latest(metrics).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def sample_of(samples: Samples, name: str, **labels: str) -> float | None:
    """Returns one sample, by default of the job clicks, or None."""
    if name.startswith("kfetch_job"):
        labels["job_name"] = labels.get("job_name", "clicks")
    return samples.get((name, tuple(sorted(labels.items()))))
