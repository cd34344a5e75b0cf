"""``kfetch up --detach`` waits until the supervisor supervises, and tells where its page is."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.supervise import background
from kfetch_jobs.web.address import Address, page_sentence
from kfetch_jobs.web.serve import listening, serving
from tests.kfetch_jobs.pages import loaded

TOKEN = "0123456789abcdef"


def alive() -> None:
    """The check of a supervisor that has not ended."""


@pytest.fixture
def storage(project: Path) -> Path:
    """The storage of a project, with a supervisor's directory."""
    directory = loaded(project).storage
    (directory / ".supervisor").mkdir(parents=True)
    return directory


@pytest.mark.parametrize(
    ("token", "hint"), [("", ""), (TOKEN, "; log in with the token of KFETCH_TOKEN")]
)
def test_a_page_that_answers(
    project: Path, storage: Path, monkeypatch: pytest.MonkeyPatch, token: str, hint: str
) -> None:
    """The sentence has the address with its port, and tells people to log in. The page answers as
    soon as its supervisor is up."""
    monkeypatch.setenv("KFETCH_TOKEN", token)
    with (
        listening("127.0.0.1:0") as (bound, given, closed),
        serving(loaded(project), bound, given, time.time) as address,
    ):
        sentence = page_sentence(address, token=bool(given.token), closed=closed)
        background.note_up(storage, sentence)
        assert address is not None
        page = f"http://127.0.0.1:{address.port}/"
        assert f"page: {page}{hint}" == background.wait_until_up(storage, os.getpid(), alive)
        with urllib.request.urlopen(f"{page}login", timeout=60) as answer:
            assert 200 == answer.status


def test_a_page_for_everybody() -> None:
    """For 0.0.0.0 the sentence has an address for this machine, and the port for others."""
    assert page_sentence(Address("0.0.0.0", 4747), token=True, closed="") == (
        "page: http://127.0.0.1:4747/, from other machines at port 4747 of this one; "
        "log in with the token of KFETCH_TOKEN"
    )


def test_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the reason: a used default port, or ``--listen none``."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        monkeypatch.setattr("kfetch_jobs.web.serve.DEFAULT", taken)
        for listen, why in (
            (None, f"cannot listen on {taken} (Address already in use): name another"),
            ("none", "--listen none"),
        ):
            with listening(listen) as (_, _, closed):
                sentence = page_sentence(None, token=False, closed=closed)
            assert sentence.startswith(f"no page: {why}")


def test_another_supervisor_does_not_count(
    project: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has a limit. The note of another process does not end it, nor does an earlier note
    of the same pid: in a container a restart gives the same pids."""
    monkeypatch.setattr(background, "_UP_WITHIN_S", 0.3)
    background.note_up(storage, "an old page")
    log = storage / ".supervisor" / "supervisor.log"
    sentence = re.escape(f"the supervisor did not come up within 0 s (see {log})")
    with pytest.raises(SupervisorError, match=sentence):
        background.wait_until_up(storage, os.getpid() + 1, alive)

    me = SimpleNamespace(pid=os.getpid(), poll=lambda: None)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: me)
    with pytest.raises(SupervisorError, match=sentence):
        background.start_in_background(loaded(project))
