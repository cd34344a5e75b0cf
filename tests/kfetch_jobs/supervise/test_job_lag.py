"""The lag of a job, from the reports of its run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.reports import Pulse, broker_report_path
from kfetch_jobs.supervise.job_lag import job_lag
from tests.kfetch_jobs.projects import ENVIRON, JOB, PROJECT

LAST = Batch(
    batch=18, started="", finished=40.0, rows=1, seconds=1.0, end=870, latest=875, lag_s=12.0
)
BACKLOG = {"behind": 0, "behind_since": None, "planned": 5, "planned_at": 40.0, "end": 875}


@pytest.mark.parametrize(
    ("pulse_batch", "last", "waits_s"),
    [
        (18, LAST, 37.0),
        (17, LAST, 37.0),
        (None, LAST, 37.0),
        (19, LAST, 37.0),
        (18, replace(LAST, latest=870), 25.0),
    ],
    ids=["told", "the pulse is late", "first", "the line is late", "nothing waited"],
)
def test_the_next_record_has_waited_since_before_its_plan(
    tmp_path: Path, pulse_batch: int | None, last: Batch, waits_s: float
) -> None:
    """A record that waited during a micro-batch goes on waiting in the next one. The lag counts
    both, also if the run hangs before it writes its pulse, or a full disk swallows the line."""
    files = tmp_path / "conf"
    (files / "jobs").mkdir(parents=True)
    (files / "kfetch.yml").write_text(PROJECT)
    (files / "jobs" / "clicks.yml").write_text(JOB)
    job = config.load(files / "kfetch.yml", ENVIRON).job("clicks")
    report = broker_report_path(job.directory, "source")
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"at": 64.0, "backlog": BACKLOG}))

    lag = job_lag(job, 1.0, Pulse(at=41.0, batch=pulse_batch, lag=5, lag_s=13.0), last, 65.0)

    assert (5, waits_s) == (lag.offsets, lag.seconds)
