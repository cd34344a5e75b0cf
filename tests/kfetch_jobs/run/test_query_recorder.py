"""The lag that a run writes into its pulse."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfetch_jobs import config
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.progress_file import read_batches
from kfetch_jobs.progress.reports import read_partition_lags, read_pulse
from kfetch_jobs.run import query_recorder
from tests.kfetch_jobs.progress.test_spark_progress import TOLD
from tests.kfetch_jobs.projects import ENVIRON


def test_lag_is_unknown_until_it_is_known(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that has just begun says that it is idle before its source knows better; one that
    stays idle has nothing to read; after a micro-batch the lag is the batch's."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    watched = query_recorder.QueryRecorder(job, lambda batch: None)
    monkeypatch.setattr(time, "time", lambda: 99.0)
    watched.record_start("2")
    lags = []
    for at in (100.0, 110.0):
        monkeypatch.setattr(time, "time", lambda at=at: at)
        watched.record_idle()
        lags.append(read_pulse(job.directory))
    monkeypatch.setattr(time, "time", lambda: 120.0)
    watched.record_progress(TOLD | {"runId": "1", "id": "2"})
    lags.append(read_pulse(job.directory))

    assert [(100.0, None, "2"), (110.0, 0, "2"), (120.0, 5, "2")] == [
        (p.at, p.lag, p.query) for p in lags if p
    ]


def test_a_query_that_has_started(project: Path) -> None:
    """The pulse exists from the query's start on, with its id: a first batch may take long."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    recorder = query_recorder.QueryRecorder(job, lambda batch: None)
    recorder.record_start("7")
    pulse = read_pulse(job.directory)

    assert pulse
    assert ("7", None, None) == (pulse.query, pulse.batch, pulse.lag)


def test_lines_have_the_totals_of_their_run(project: Path) -> None:
    """Each line has the number of micro-batches of the run up to it, and of their rows."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    for _ in range(2):  # two runs
        recorder = query_recorder.QueryRecorder(job, lambda batch: None)
        for batch in range(2):
            recorder.record_progress(TOLD | {"runId": "1", "id": "2", "batchId": batch})

    written = read_batches(job.directory)
    assert [(1, 40), (2, 80)] * 2 == [(batch.run_batches, batch.run_rows) for batch in written]


def test_a_late_report_of_an_idle_trigger(project: Path) -> None:
    """An idle trigger has the number of the next micro-batch. Its report may come after that batch
    was written, and takes no count away."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    batches: list[Batch] = []
    recorder = query_recorder.QueryRecorder(job, batches.append)
    told = TOLD | {"runId": "1", "id": "2"}
    recorder.counts.put_rows(told["batchId"], 70)
    recorder.record_progress(told | {"numInputRows": 0, "durationMs": {"latestOffset": 1}})
    recorder.record_progress(told)

    assert [70] == [batch.rows for batch in batches]


def test_a_source_that_spark_reads_twice(project: Path) -> None:
    """Beside dead letters, Spark reads the source of a transform with state twice, and may report
    it as two sources. Rows, lag and partitions count once."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    batches: list[Batch] = []
    recorder = query_recorder.QueryRecorder(job, batches.append)
    recorder.counts.reads = 2
    recorder.record_progress(TOLD | {"runId": "1", "id": "2", "sources": TOLD["sources"] * 2})

    assert [(20, 100, 5)] == [(batch.rows, batch.end, batch.lag) for batch in batches]
    written = read_partition_lags(job.directory)
    assert written is not None
    assert [(0, (0, 1), (5, 0))] == [(t.source, t.partitions, t.behind) for t in written.topics]


def test_queries_of_a_transform(project: Path) -> None:
    """A transform may start queries of its own in the session, before the job's. Their reports are
    not the job's, and their end does not end it."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    batches: list[Batch] = []
    recorder = query_recorder.QueryRecorder(job, batches.append)
    listener = query_recorder.query_listener(recorder, job.name)
    for query, name in (("1", "other"), ("2", job.name), ("3", None)):
        listener.onQueryStarted(SimpleNamespace(id=query, name=name))
    for query, batch in (("1", 70), ("2", 3), ("3", 80)):
        told = json.dumps(TOLD | {"runId": "r", "id": query, "batchId": batch})
        listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=told)))
    for query in ("1", "3"):
        listener.onQueryIdle(SimpleNamespace(id=query))
        listener.onQueryTerminated(SimpleNamespace(id=query))

    assert [3] == [batch.batch for batch in batches]
    assert not recorder.ended.is_set()
    listener.onQueryTerminated(SimpleNamespace(id="2"))
    assert recorder.ended.is_set()
