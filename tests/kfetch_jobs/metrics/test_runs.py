"""Metrics of runs."""

from __future__ import annotations

from pathlib import Path

from kfetch_jobs.metrics.collect import CollectedMetrics
from kfetch_jobs.metrics.runs import RunMetrics
from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.store import Store
from tests.kfetch_jobs.metrics.scrape import sample_of, scraped


def test_each_run_counts_once(tmp_path: Path) -> None:
    """Runs start and end in any order. A run from before the start counts when it ends."""
    state = JobState(phase=Phase.RUNNING, since_s=0.0)
    with Store(tmp_path / "kfetch.db") as store:
        store.end(store.begin({"a": state}, 1.0)["a"], 2.0, ExitKind.FAILED)
        long = store.begin({"a": state}, 1.0)["a"]
        runs = RunMetrics(store)
        for _ in range(3):
            store.end(store.begin({"a": state}, 1.0)["a"], 2.0, ExitKind.FAILED)
            runs.update(store)
            runs.update(store)
        store.end(long, 3.0, ExitKind.STOPPED)
        runs.update(store)
        runs.update(store)
    samples = SampleSet()
    runs.add_samples(samples, "a")
    told = scraped(CollectedMetrics(samples.families()))

    assert 3 == sample_of(told, "kfetch_job_runs_started_total", job_name="a")
    ended = "kfetch_job_runs_ended_total"
    assert [3, 1, 0] == [
        sample_of(told, ended, job_name="a", kind=kind) for kind in ("failed", "stopped", "hung")
    ]
    assert {} == runs._counted
