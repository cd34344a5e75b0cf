"""What the history has of runs that could not report their end."""

from __future__ import annotations

import os
import signal

from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.job_state import Order, Phase
from tests.kfetch_jobs.stage import CONTINUOUS, UNTIL_TERM, Stage


def test_a_killed_run_shows_what_it_committed(stage: Stage) -> None:
    """Somebody kills a run after nine micro-batches. The history has them with their rows, and the
    next run, which commits nothing, has none."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        for run in range(2):
            stage.until_runs(supervisor, "a")
            if not run:
                stage.commit("a", batches=9, rows=200_000)
            (stage.directory / "a.on").unlink()
            os.kill(stage.runs("a")[-1].pid or 0, signal.SIGKILL)
            stage.until_phase(supervisor, "a", Phase.BACKOFF)
            stage.ask("a", Order.START)

    assert [(ExitKind.KILLED, 9, 200_000), (ExitKind.KILLED, 0, 0)] == [
        (run.kind, run.batches, run.rows) for run in stage.runs("a")
    ]
