"""Only one process works on a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfetch_jobs import config
from kfetch_jobs.errors import JobsError
from kfetch_jobs.run.job_lock import hold_job_lock
from kfetch_jobs.util.files import try_lock
from tests.kfetch_jobs.checkpoints import job
from tests.kfetch_jobs.projects import JOB


def test_a_checkpoint_by_its_uri_is_claimed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one by its path: a move and a run, or two projects, never work on it at once."""
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")
    job(JOB + f"checkpoint: file://{project}/checkpoint\n")
    the_job = config.load(config.find(Path.cwd())).job("clicks")
    refused = pytest.raises(JobsError, match="runs here already")
    with try_lock(project / "checkpoint.lock"), refused, hold_job_lock(the_job):
        pass
