"""The agents of a user on this machine."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfetch.admin import agents
from kfetch.agent import home
from kfetch.agent.budget import Budget
from kfetch.agent.server import OpenQueries, Server


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


def test_an_agent_of_another_environment(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login shell finds an agent that cron has started: cron has no XDG_RUNTIME_DIR."""
    cron, login = short / "cron", short / "login"
    cron.mkdir()
    login.mkdir()
    monkeypatch.setattr(home, "_RUNTIME_DIRECTORIES", (str(cron),))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(cron))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.user_directory() / "x.sock"))
        listener.listen()
        server = Server(OpenQueries(Budget(1 << 20)))
        answering = threading.Thread(target=server.accept, args=(listener,), daemon=True)
        answering.start()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(login))
        found = agents.find()
        answering.join(60)

    assert [os.getpid()] == [status.pid for status in found]
