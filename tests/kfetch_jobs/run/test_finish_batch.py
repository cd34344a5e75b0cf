"""A stop waits for the micro-batch that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kfetch_jobs import config
from kfetch_jobs.run import runner
from kfetch_jobs.run.query_recorder import QueryRecorder
from tests.kfetch_jobs.progress.test_spark_progress import TOLD
from tests.kfetch_jobs.projects import ENVIRON
from tests.kfetch_jobs.run.test_fence import Fence


class _Query:
    """A query whose trigger never ends, with its last finished trigger."""

    def __init__(self, last: dict[str, Any] | None) -> None:
        self.isActive = True
        self.status = {"isTriggerActive": True}
        self.lastProgress = last


def _batch(number: int) -> dict[str, Any]:
    return TOLD | {"runId": "1", "id": "2", "batchId": number}


def _idle(number: int) -> dict[str, Any]:
    return _batch(number) | {"durationMs": {"latestOffset": 1}}


@pytest.mark.parametrize(
    ("last", "reports", "waited_for"),
    [
        (_batch(7), [_batch(6), _batch(7), _batch(8), _batch(9)], 8),
        (_idle(8), [_batch(7), _idle(8), _batch(8), _batch(9)], 8),
        (None, [_batch(5), _batch(6)], 5),
    ],
    ids=["behind a batch", "behind an idle trigger", "first of the run"],
)
def test_late_reports(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    last: dict[str, Any] | None,
    reports: list[dict[str, Any]],
    waited_for: int,
) -> None:
    """Spark reports a micro-batch a little after its end. So a report that comes behind the stop
    may be of an earlier one, and the running one is not interrupted."""
    job = config.load(config.find(project), ENVIRON).job("clicks")
    job.directory.mkdir(parents=True)
    recorded: list[int] = []
    recorder = QueryRecorder(job, lambda batch: recorded.append(batch.batch))
    monkeypatch.setattr(runner.time, "sleep", lambda _: recorder.record_progress(reports.pop(0)))
    query: Any = _Query(last)
    runner._finish_batch(query, recorder, 60.0, Fence())  # type: ignore[arg-type]

    assert waited_for == recorded[-1]
