"""Project directories, and the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kfetch.watch import lookups, position_check
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import committed, offset, planned
from tests.kfetch_jobs.commands import Told
from tests.kfetch_jobs.projects import JOB, PROJECT
from tests.kfetch_jobs.stage import Stage


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


@pytest.fixture
def kafka(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleKafka]:
    """clicks-0 with ten records, a millisecond apart from T0 on, clicks-1 with four; and a job that
    has read 6 and 4 of them by micro-batch 7."""
    monkeypatch.setattr(position_check, "_STALE_PAUSE_S", 0.0)
    monkeypatch.setattr(lookups, "_STALE_PAUSE_S", 0.0)
    with LittleKafka(2) as running:
        first, second = running.create("clicks", 2)
        first.append(*[b"a"] * 10)
        second.append(*[b"x"] * 4)
        monkeypatch.setenv("SERVERS", running.bootstrap)
        planned(6, offset(running, 3, 2))
        planned(7, offset(running, 6, 4))
        committed(6)
        committed(7)
        yield running


@pytest.fixture
def asked(kfetch: Told, kafka: LittleKafka) -> Callable[..., Any]:
    """``asked("reset", "--to-latest")``: what it says as JSON; its error if ``code`` is one."""

    def ask(verb: str, *words: str, code: int = 0) -> Any:
        left, out, said = kfetch("offsets", verb, "clicks", *words, "--json")
        assert code == left, said
        return said if code else json.loads(out)

    return ask


@pytest.fixture
def stage(project: Path) -> Iterator[Stage]:
    """A stage on which nothing is left at the end, whatever a test did."""
    (project / "conf" / "jobs" / "clicks.yml").unlink()
    made = Stage(project)
    yield made
    made.clear()
