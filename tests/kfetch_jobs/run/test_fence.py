"""A run that has lost its lease stops its query, and commits nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kfetch.errors import LeaseLost
from kfetch_jobs import config
from kfetch_jobs.config import Job
from kfetch_jobs.run import delta_sink, letters_table, runner
from tests.kfetch_jobs.checkpoints import job
from tests.kfetch_jobs.projects import JOB


class Fence:
    """A lease with or without trouble."""

    def __init__(self, trouble: str = "") -> None:
        self._trouble = trouble
        self.asked: list[str] = []

    def trouble(self) -> str:
        return self._trouble

    def check(self) -> None:
        self.asked.append("lease")
        if self._trouble:
            raise LeaseLost(self._trouble)


@pytest.mark.parametrize("trouble", ["", "the lease could not be renewed"])
def test_trouble_ends_the_jvm(monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    """The run ends with the reason. A safe lease ends nothing."""
    ended: list[str] = []
    monkeypatch.setattr(runner, "kill_jvm", lambda: ended.append("JVM"))
    if trouble:
        with pytest.raises(LeaseLost, match="could not be renewed"):
            runner._check_fence(Fence(trouble))
    else:
        runner._check_fence(Fence())
    assert ["JVM"] * bool(trouble) == ended


@pytest.fixture
def made(project: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Job:
    """A job with dead letters. ``request.param`` has more lines of its sink."""
    monkeypatch.setenv("SERVERS", "127.0.0.1:1")
    text = JOB.replace(
        "    includeHeaders: true\n", "    valueFormat: json\n    valueSchema: a INT\n"
    )
    job(text.replace("trigger:", f"  deadLetters: {{path: letters}}\n{request.param}trigger:"))
    return config.load(config.find(Path.cwd())).job("clicks")


SINKS = pytest.mark.parametrize(
    "made", ["", "  mode: merge\n  keys: [a]\n  latestBy: timestamp\n"], indirect=True
)


@SINKS
@pytest.mark.parametrize("trouble", ["", "taken"])
def test_rows(made: Job, monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    """The lease is asked right before their commit, and the commit does not happen without it."""
    fence = Fence(trouble)
    for name in ("append", "merge"):
        monkeypatch.setattr(delta_sink, name, lambda *_: fence.asked.append("commit"))
    monkeypatch.setattr(delta_sink, "refused_types", _nothing)
    rows: Any = SimpleNamespace()
    if trouble:
        with pytest.raises(LeaseLost):
            delta_sink._write_rows(made, rows, "q", 7, check=fence.check)
    else:
        delta_sink._write_rows(made, rows, "q", 7, check=fence.check)
    assert ["lease"] + ["commit"] * (not trouble) == fence.asked


class _nothing:
    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("made", [""], indirect=True)
@pytest.mark.parametrize("repeated", [False, True])
def test_dead_letters(made: Job, monkeypatch: pytest.MonkeyPatch, repeated: bool) -> None:
    """The lease is asked behind the count of the letters, which may take long."""
    fence = Fence()
    monkeypatch.setattr(letters_table, "dead_letters_among", lambda places: places)
    monkeypatch.setattr(letters_table, "existing_table", lambda *_: "a table")
    monkeypatch.setattr(letters_table, "has_batch", lambda *_: next(answers))
    monkeypatch.setattr(letters_table, "append", lambda *_: fence.asked.append("append"))
    monkeypatch.setattr(letters_table, "_replace", lambda *_: fence.asked.append("replace"))
    answers = iter([False, True])
    places: Any = SimpleNamespace(
        sparkSession=None,
        count=lambda: fence.asked.append("count") or 1,
        select=lambda *_: SimpleNamespace(
            take=lambda _: [SimpleNamespace(topic="t", partition=0, offset=1, error="e")]
        ),
    )
    if repeated:
        letters_table.repeat_letters(made, places, "q", 7, fence.check, stateful=False)
        assert ["lease", "replace", "count"] == fence.asked
    else:
        letters_table.write_letters(made, places, "q", 7, fence.check)
        assert ["count", "lease", "append"] == fence.asked
