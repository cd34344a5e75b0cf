"""Project directories, and the command line in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.commands import Told
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


@pytest.fixture
def kfetch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Told:
    """``kfetch("validate", "--json")``"""
    monkeypatch.delenv("KFETCH_ENV", raising=False)
    return Told(capsys, monkeypatch)


@pytest.fixture
def shop(kfetch: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, and this process in it."""
    assert 0 == kfetch("init", str(tmp_path / "shop"))[0]
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"
