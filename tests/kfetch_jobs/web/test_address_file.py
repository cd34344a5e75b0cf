"""``kfetch up --detach`` tells where the page is once it answers, or why there is none."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kfetch_jobs.supervise import background
from kfetch_jobs.supervise.background import BackgroundSupervisor
from kfetch_jobs.verbs import supervising
from kfetch_jobs.web import address_file
from kfetch_jobs.web.address import Address
from kfetch_jobs.web.serve import listening, serving
from tests.kfetch_jobs.pages import loaded

TOKEN = "0123456789abcdef"
ME = os.getpid()


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
    """The sentence has the address with its port, and tells people to log in."""
    monkeypatch.setenv("KFETCH_TOKEN", token)
    with (
        listening("127.0.0.1:0") as (bound, given, closed),
        serving(loaded(project), bound, given, time.time) as address,
    ):
        address_file.write(storage, address, token=bool(given.token), closed=closed)
        assert address is not None
        assert f"page: http://127.0.0.1:{address.port}/{hint}" == address_file.wait_for_page(
            storage, ME, alive
        )


def test_a_page_for_everybody(
    project: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For 0.0.0.0 the sentence has an address for this machine, and the port for others."""
    monkeypatch.setattr(address_file, "_answers", lambda address: address.host == "127.0.0.1")
    address_file.write(storage, Address("0.0.0.0", 4747), token=True, closed="")

    assert address_file.wait_for_page(storage, ME, alive) == (
        "page: http://127.0.0.1:4747/, from other machines at port 4747 of this one; "
        "log in with the token of KFETCH_TOKEN"
    )


def test_no_page(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the reason: a used default port, or ``--listen none``."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        monkeypatch.setattr("kfetch_jobs.web.serve.DEFAULT", taken)
        for listen, why in (
            (None, f"cannot listen on {taken} (Address already in use): name another"),
            ("none", "--listen none"),
        ):
            with listening(listen) as (_, _, closed):
                address_file.write(storage, None, token=False, closed=closed)
            assert address_file.wait_for_page(storage, ME, alive).startswith(f"no page: {why}")


def test_waiting_is_bounded(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait has a limit, for a silent page and for an earlier supervisor's file."""
    monkeypatch.setattr(address_file, "_PAGE_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:
        monkeypatch.setattr(address_file, "_ANSWER_TIMEOUT_S", 0.05)
        address = Address("127.0.0.1", silent.getsockname()[1])
        address_file.write(storage, address, token=False, closed="")
        silence = address_file.wait_for_page(storage, ME, alive)
        another = address_file.wait_for_page(storage, ME + 1, alive)

    log = storage / ".supervisor" / "supervisor.log"
    assert silence == f"no page after 0 s: http://{address}/ does not answer (see {log})"
    assert another == f"no page after 0 s: the supervisor has written no address (see {log})"


def test_an_earlier_supervisor_of_the_same_pid(
    project: Path,
    storage: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its file does not count: in a container a restart gives the same pids."""
    monkeypatch.setattr(address_file, "_PAGE_TIMEOUT_S", 0.1)
    address_file.write(storage, None, token=False, closed="an old reason")
    me = SimpleNamespace(pid=ME, poll=lambda: None)
    started = BackgroundSupervisor(cast("Any", me), storage / "up.log", storage / "log")
    monkeypatch.setattr(background, "start_in_background", lambda *_: started)
    supervising._detach(loaded(project), None, None)

    assert "the supervisor has written no address" in capsys.readouterr().out
