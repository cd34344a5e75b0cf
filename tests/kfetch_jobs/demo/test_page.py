"""``kfetch demo --open`` starts a supervisor and opens its page. Both are fakes here."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kfetch_jobs.demo import page
from kfetch_jobs.errors import DemoError


class FakeSupervisor:
    """Takes the place of the process ``kfetch up``."""

    check_raises: BaseException = KeyboardInterrupt()
    """The error of ``check``. The default is the user's Ctrl-C."""
    started: FakeSupervisor
    """The supervisor that the code under test has started."""

    def __init__(
        self, words: Sequence[str], project: Path, environ: Mapping[str, str], log: Path
    ) -> None:
        self.arguments, self.environ, self.stopped = words, environ, False
        type(self).started = self

    def check(self) -> None:
        raise self.check_raises

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> type[FakeSupervisor]:
    class SupervisorOfOneTest(FakeSupervisor):
        """Keeps the class attributes of one test from the next one."""

    monkeypatch.setattr(page, "Worker", SupervisorOfOneTest)
    monkeypatch.setattr(page, "is_free", lambda port: False)  # the page is up at once
    return SupervisorOfOneTest


@pytest.mark.parametrize("has_browser", [True, False])
def test_the_page_opens_and_ctrl_c_stops_the_supervisor(
    supervisor: type[FakeSupervisor],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    has_browser: bool,
) -> None:
    """The browser opens the supervisor's address. Ctrl-C stops the supervisor without an error."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or has_browser)
    announced: list[str] = []
    variables = {"KFETCH_TOKEN": "a token of the user's shell", "KFETCH_STORAGE": "/storage"}
    page.open_until_interrupted(tmp_path / "kfetch.yml", variables, tmp_path, announced.append)
    started = supervisor.started
    address = started.arguments[-1]

    assert opened == [f"http://{address}/"]
    assert ("up", "127.0.0.1") == (started.arguments[0], address.split(":")[0])
    assert ("", "/storage") == (started.environ["KFETCH_TOKEN"], started.environ["KFETCH_STORAGE"])
    assert started.stopped
    assert f"page: {opened[0]}" == announced[0]
    assert has_browser == ("kfetch found no browser: open the page yourself" not in announced)


def test_the_demo_fails_if_the_supervisor_ends(
    supervisor: type[FakeSupervisor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The demo raises the supervisor's error, and stops the supervisor's process."""
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    supervisor.check_raises = DemoError("the process of kfetch up ended")

    with pytest.raises(DemoError, match="kfetch up ended"):
        page.open_until_interrupted(tmp_path / "kfetch.yml", {}, tmp_path, lambda line: None)
    assert supervisor.started.stopped
