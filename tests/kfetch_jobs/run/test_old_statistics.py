"""Files of statistics that a run finds at its start."""

from __future__ import annotations

import os
import time
from pathlib import Path
from uuid import uuid4

import pytest

from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import write_driver_stats, write_stats
from kfetch_jobs import config
from kfetch_jobs.run import run, runner
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import job
from tests.kfetch_jobs.projects import JOB


class Started(Exception):
    """Spark would start now."""


def test_a_run_removes_those_of_old_runs(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its job's readers and drivers, before Spark starts. Without that, a job that runs
    each minute would leave a million files in a year."""

    def session(*_: object, **__: object) -> None:
        raise Started

    monkeypatch.setattr(runner, "session", session)
    statistics = Path("stats").absolute()
    job(JOB.replace("    includeHe", f"    kfetch.statsDirectory: {statistics}\n    includeHe"))
    for age_s in (0, 90_000):
        name = uuid4().hex
        write_stats(str(statistics), name, FetchStats())
        write_driver_stats(str(statistics), name, FetchStats(), {})
        for path in statistics.rglob(f"{name}-*"):
            os.utime(path, (time.time() - age_s,) * 2)
    with pytest.raises(Started):
        run(config.load(config.find(Path.cwd())).job("clicks"), lambda _: None)

    assert 2 == len([*statistics.rglob("*.json")])
