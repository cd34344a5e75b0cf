"""The end of ``kfetch demo --open``. The supervisor and the browser are doubles here."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kfetch_jobs.demo import page
from kfetch_jobs.errors import DemoError


class Supervisor:
    """Stands in for the process of ``kfetch up``."""

    ending: BaseException = KeyboardInterrupt()
    """What happens while the caller waits."""
    last: Supervisor

    def __init__(
        self, words: Sequence[str], project: Path, environ: Mapping[str, str], log: Path
    ) -> None:
        self.words, self.environ, self.stopped = words, environ, False
        type(self).last = self

    def check(self) -> None:
        raise self.ending

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> type[Supervisor]:
    class Fresh(Supervisor):
        pass

    monkeypatch.setattr(page, "Worker", Fresh)
    monkeypatch.setattr(page, "is_free", lambda port: False)
    return Fresh


@pytest.mark.parametrize("found", [True, False])
def test_the_page_opens_until_ctrl_c(
    supervisor: type[Supervisor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: bool
) -> None:
    """The browser gets the supervisor's address. Ctrl-C stops the supervisor and is no error."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or found)
    lines: list[str] = []
    variables = {"KFETCH_TOKEN": "of the shell", "KFETCH_STORAGE": "here"}
    page.open_until_interrupted(tmp_path / "kfetch.yml", variables, tmp_path, lines.append)
    started = supervisor.last

    assert opened == [f"http://{started.words[-1]}/"]
    assert ("up", "127.0.0.1") == (started.words[0], started.words[-1].split(":")[0])
    assert ("", "here") == (started.environ["KFETCH_TOKEN"], started.environ["KFETCH_STORAGE"])
    assert started.stopped
    assert f"page: {opened[0]}" == lines[0]
    assert found == ("kfetch found no browser: open the page yourself" not in lines)


def test_a_supervisor_that_ends_is_an_error(
    supervisor: type[Supervisor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The demo fails with the supervisor's error, and nothing is left running."""
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    supervisor.ending = DemoError("the process of kfetch up ended")

    with pytest.raises(DemoError, match="kfetch up ended"):
        page.open_until_interrupted(tmp_path / "kfetch.yml", {}, tmp_path, lambda line: None)
    assert supervisor.last.stopped
