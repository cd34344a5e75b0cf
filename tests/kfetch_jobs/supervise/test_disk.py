"""Disks that are full or closed to the supervisor: no job is lost, and none runs on alone."""

from __future__ import annotations

from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.supervise.state_machine import Phase
from tests.kfetch_jobs.stage import CONTINUOUS, UNTIL_TERM, Stage


def test_a_directory_that_the_supervisor_cannot_use(stage: Stage) -> None:
    """A run without a place for its files has failed, and is tried again. It is not running."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.take() as supervisor:
        (stage.storage / "a").touch()
        stage.until_phase(supervisor, "a", Phase.BACKOFF)
        assert ExitKind.FAILED is stage.runs("a")[0].kind
        assert stage.runs("a")[0].sentence.startswith("no start: ")
        (stage.storage / "a").unlink()
        stage.ahead_s = 1000
        stage.until_runs(supervisor, "a")
