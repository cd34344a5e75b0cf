"""The job clicks as its files and the database have it: states and micro-batches."""

from __future__ import annotations

import time

from kfetch_jobs.config import Project
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.store import Store


def running(now: float) -> JobState:
    return JobState(phase=Phase.RUNNING, since_s=now - 90, started_s=now - 90)


def batch(number: int, finished: float) -> Batch:
    return Batch(
        batch=number,
        started="",
        finished=finished,
        rows=600,
        seconds=0.5,
        end=1,
        latest=1235,
        phases={"addBatch": 0.3},
    )


def stands(project: Project, **state: object) -> None:
    """The job clicks is in another state."""
    with Store.of(project.storage) as store:
        for run in store.open_runs():
            sentence = str(state.get("sentence", ""))
            store.end(run.id, time.time(), ExitKind.FAILED, sentence, batches=2, rows=1200)
        store.save({"clicks": JobState(since_s=time.time() - 30, **state)})  # type: ignore[arg-type]
