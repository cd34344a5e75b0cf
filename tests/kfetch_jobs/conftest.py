"""Project directories, and the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from kfetch.watch import lookups, position_check
from kfetch_jobs.supervise import status_reader
from kfetch_jobs.util.disk_space import DiskSpace
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch_jobs.checkpoints import committed, offset, planned
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import JOB, PROJECT
from tests.kfetch_jobs.stage import Stage


@pytest.fixture(autouse=True)
def room_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of each checkpoint has room, however full this machine's disk is."""
    space = DiskSpace(free_bytes=50 << 30, size_bytes=100 << 30)
    monkeypatch.setattr(status_reader, "read_disk_space", lambda directory: space)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the job ``clicks``. Its directory is the working directory."""
    monkeypatch.chdir(tmp_path)
    jobs = tmp_path / "conf" / "jobs"
    jobs.mkdir(parents=True)
    (tmp_path / "conf" / "kfetch.yml").write_text(PROJECT)
    (jobs / "clicks.yml").write_text(JOB)
    return tmp_path


@pytest.fixture
def kfetch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``kfetch``, as in ``kfetch("validate", "--json")``."""
    monkeypatch.delenv("KFETCH_ENV", raising=False)
    return Command(capsys, monkeypatch)


@pytest.fixture
def shop(kfetch: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that ``kfetch init`` has made. Its directory is the working directory."""
    assert 0 == kfetch("init", str(tmp_path / "shop"))[0]
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


@pytest.fixture
def no_stale_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look-ups ask again at once if a broker's metadata is stale."""
    monkeypatch.setattr(position_check, "_STALE_PAUSE_S", 0.0)
    monkeypatch.setattr(lookups, "_STALE_PAUSE_S", 0.0)


@pytest.fixture
def kafka_of_new_job(
    project: Path, no_stale_pause: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LittleKafka]:
    """Topic clicks with 3 records in clicks-0 and 1 in clicks-1. The job has no checkpoint."""
    with LittleKafka(2) as running:
        first, second = running.create("clicks", 2)
        first.append(b"a", b"b", b"c")
        second.append(b"x")
        monkeypatch.setenv("SERVERS", running.bootstrap)
        yield running
        # A command that only looks must not fetch: its session could evict a running query's.
        assert [] == running.asked(FetchRequest)


@pytest.fixture
def kafka(
    project: Path, no_stale_pause: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LittleKafka]:
    """Topic clicks with ten records in clicks-0, a millisecond apart from T0 on, and four in
    clicks-1. The job has read 6 and 4 of them by micro-batch 7."""
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
def asked(kfetch: Command, kafka: LittleKafka) -> Callable[..., Any]:
    """Runs ``kfetch offsets``, as in ``asked("reset", "--to-latest")``. Returns the parsed output,
    or stderr for an exit code other than 0."""

    def ask(verb: str, *arguments: str, code: int = 0) -> Any:
        actual_code, out, err = kfetch("offsets", verb, "clicks", *arguments, "--json")
        assert code == actual_code, err
        return err if code else json.loads(out)

    return ask


@pytest.fixture
def stage(project: Path) -> Iterator[Stage]:
    """A project whose jobs are shell scripts. Its jobs and supervisors end with the test."""
    (project / "conf" / "jobs" / "clicks.yml").unlink()
    made = Stage(project)
    yield made
    made.clear()
