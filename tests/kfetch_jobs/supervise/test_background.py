"""``kfetch up --detach`` waits until the supervisor supervises, and tells where its page is."""

from __future__ import annotations

import re
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.supervise import background
from kfetch_jobs.web.address import Address, page_sentence
from kfetch_jobs.web.serve import listening, serving
from tests.kfetch_jobs.pages import loaded

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("token", "hint"), [("", ""), (TOKEN, "; log in with the token of KFETCH_TOKEN")]
)
def test_a_page_that_answers(
    project: Path, monkeypatch: pytest.MonkeyPatch, token: str, hint: str
) -> None:
    """The sentence has the address with its port, and tells people to log in. The page answers as
    soon as its supervisor is up."""
    monkeypatch.setenv("KFETCH_TOKEN", token)
    with (
        listening("127.0.0.1:0") as (bound, given, closed),
        serving(loaded(project), bound, given, time.time) as address,
    ):
        sentence = page_sentence(address, token=bool(given.token), closed=closed)
        assert address is not None
        page = f"http://127.0.0.1:{address.port}/"
        assert f"page: {page}{hint}" == sentence
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


def test_a_supervisor_that_hangs(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait has a limit."""
    monkeypatch.setattr(background, "_UP_WITHIN_S", 0.3)
    popen, children = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def sleeping(_: object, **named: Any) -> subprocess.Popen[bytes]:
        children.append(popen(["sleep", "600"], **named))
        return children[-1]

    monkeypatch.setattr(subprocess, "Popen", sleeping)
    storage = loaded(project).storage
    log = storage / ".supervisor" / "supervisor.log"
    sentence = re.escape(f"the supervisor did not come up within 0 s (see {log})")
    with pytest.raises(SupervisorError, match=sentence):
        background.start_in_background(loaded(project))
    for child in children:
        child.kill()
        child.wait()
