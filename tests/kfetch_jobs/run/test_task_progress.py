"""Finished tasks of a long micro-batch are signs of life; a task that hangs is none."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from kfetch_jobs import config
from kfetch_jobs.progress.reports import read_pulse
from kfetch_jobs.run.query_recorder import QueryRecorder
from kfetch_jobs.run.watching import TaskProgress
from tests.kfetch_jobs.progress.test_spark_progress import TOLD
from tests.kfetch_jobs.projects import ENVIRON


@dataclass
class Stage:
    numCompletedTasks: int


@dataclass
class Tracker:
    """Stands where Spark's status tracker would."""

    stages: dict[int, int] = field(default_factory=dict)
    broken: bool = False

    def getActiveStageIds(self) -> list[int]:
        if self.broken:
            raise Py4JError("the context is gone")
        return list(self.stages)

    def getStageInfo(self, stage: int) -> Stage | None:
        done = self.stages[stage]
        return None if done < 0 else Stage(done)


def test_which_looks_show_progress() -> None:
    """A finished task, and a stage that ends, are progress. A stage that only begins, one that
    stands still, and nothing at all are none."""
    tracker = Tracker()
    tasks = TaskProgress(tracker)
    looks = []
    stages = ({}, {1: 0}, {1: 0}, {1: 3}, {1: 3}, {1: 3, 2: 0}, {2: 0}, {2: 0}, {3: 5}, {}, {})
    for tracker.stages in stages:
        looks.append(tasks.advanced())

    assert [False, False, False, True, False, False, True, False, True, True, False] == looks


def test_what_spark_cannot_say() -> None:
    """A stage that Spark has forgotten, and a session that has ended, end no run."""
    tracker = Tracker({1: -1})
    tasks = TaskProgress(tracker)

    assert not tasks.advanced()
    tracker.broken = True
    assert not tasks.advanced()


def test_a_pulse_of_tasks(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves the last sign of life, and the waiting time of the next offset goes on from the
    last micro-batch. An older supervisor can read it."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    watched = QueryRecorder(job, lambda batch: None)
    pulses = []
    monkeypatch.setattr(time, "time", lambda: 100.0)
    watched.record_tasks()
    pulses.append(read_pulse(job.directory))
    monkeypatch.setattr(time, "time", lambda: 120.0)
    watched.record_progress(TOLD | {"runId": "1", "id": "2"})
    pulses.append(read_pulse(job.directory))
    monkeypatch.setattr(time, "time", lambda: 150.0)
    watched.record_tasks()
    pulses.append(read_pulse(job.directory))

    first, batch, tasks = (pulse for pulse in pulses if pulse is not None)
    assert (100.0, None, None) == (first.at, first.batch, first.lag)
    assert (150.0, batch.batch, batch.lag) == (tasks.at, tasks.batch, tasks.lag)
    assert batch.lag_s + 30 == tasks.lag_s
