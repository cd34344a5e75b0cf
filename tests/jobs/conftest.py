"""A project directory for the tests of configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.projects import JOB, PROJECT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project directory in which this test's process is."""
    monkeypatch.chdir(tmp_path)
    jobs = tmp_path / "conf" / "jobs"
    jobs.mkdir(parents=True)
    (tmp_path / "conf" / "kfetch.yml").write_text(PROJECT)
    (jobs / "clicks.yml").write_text(JOB)
    return tmp_path
