"""Metrics of micro-batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kfetch_jobs.metrics.batches import BatchMetrics
from kfetch_jobs.metrics.collect import CollectedMetrics
from kfetch_jobs.metrics.table import SampleSet
from kfetch_jobs.progress import progress_file as progress
from tests.kfetch_jobs.metrics.scrape import BATCH, sample_of, scraped


def test_each_batch_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each later micro-batch counts once, through full files, unfinished lines and damage."""
    monkeypatch.setattr(progress, "_BYTES_MAX", 1800)
    path = tmp_path / "a" / "progress.jsonl"
    path.parent.mkdir()
    progress.append_entry(path.parent, BATCH)
    batches, aside = BatchMetrics(tmp_path), 0
    for number in range(40):
        batch = replace(BATCH, seconds=0.01 * number, dead_letters=number % 2, late_rows=2)
        progress.append_entry(path.parent, batch)
        aside += not path.exists()
        if number % 3 == 0:
            batches.update()
    with path.open("a") as file:
        file.write('{"batch": 1}\n{"batch": 2, "ro')
    batches.update()
    assert aside >= 3
    assert 1 == batches.damaged
    with path.open("a") as file:
        file.write('ws": 3\n')
    progress.append_entry(path.parent, BATCH)
    batches.update()
    batches.update()

    samples = SampleSet()
    batches.add_samples(samples, "a")
    told = scraped(CollectedMetrics(samples.families()))
    name = "kfetch_job_batch_duration_seconds"
    assert 410 == sample_of(told, "kfetch_job_rows_total", job_name="a")
    assert 20 == sample_of(told, "kfetch_job_dead_letters_total", job_name="a")
    assert 80 == sample_of(told, "kfetch_job_late_rows_total", job_name="a")
    assert [6, 11, 41, 41] == [
        sample_of(told, f"{name}_bucket", job_name="a", le=le)
        for le in ("0.05", "0.1", "0.5", "+Inf")
    ]
    assert 41 == sample_of(told, f"{name}_count", job_name="a")
    assert pytest.approx(7.8 + 0.3) == sample_of(told, f"{name}_sum", job_name="a")
    phases = "kfetch_job_batch_phase_seconds_total"
    assert pytest.approx(41 * 0.2) == sample_of(told, phases, job_name="a", phase="addBatch")
