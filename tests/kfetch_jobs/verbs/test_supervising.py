"""``kfetch up`` and the orders to jobs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock, lock_file
from kfetch_jobs.supervise.supervisor_log import log_file
from kfetch_jobs.util.files import try_lock
from kfetch_jobs.web.serve import listening
from tests.kfetch_jobs.commands import Command


def test_without_a_supervisor(kfetch: Command, shop: Path) -> None:
    """Without a supervisor, ``list`` works, ``status`` exits with 3, orders wait, and history is
    empty. Unknown jobs stay errors."""
    assert "clicks" in kfetch("list")[1]
    assert ["clicks"] == [job["name"] for job in json.loads(kfetch("list", "--json")[1])]
    code, out, _ = kfetch("status", "--json")
    assert (3, None) == (code, json.loads(out)["supervisor"])
    assert "no supervisor runs" in kfetch("status")[1]
    assert "the next kfetch up does it" in kfetch("stop", "clicks")[1]
    assert (0, '{"ended": 0}\n', "") == kfetch("down", "--json")
    assert (
        2,
        "",
        "kfetch: there is no job click: did you mean clicks? [CONFIG_INVALID]\n",
    ) == kfetch("start", "click")
    assert (0, "[]\n", "") == kfetch("history", "--json")
    for words, writer in (
        ((), "kfetch up writes it"),
        (("clicks",), "kfetch up writes it; kfetch run prints to its own terminal"),
        (("clicks", "--spark"), "a run writes it"),
    ):
        code, _, said = kfetch("logs", *words)
        assert code == 1
        assert "there is no log" in said
        assert said.endswith(f".log yet: {writer} [JOBS_ERROR]\n")


BROKEN = """
from kfetch_jobs.web import address

def broken(*_, **__):
    raise RuntimeError("a bug")

address.page_sentence = broken
"""
"""With this module a supervisor ends after it has taken the lock, before it tells that it is up."""


def test_what_keeps_a_supervisor_from_coming_up(kfetch: Command, shop: Path) -> None:
    """``up --detach`` prints the mistake that stops the supervisor, and exits with its code."""
    file = shop / "jobs" / "clicks.yml"
    file.write_text(file.read_text() + "enabld: true\n")

    assert (
        2,
        "",
        "kfetch: jobs/clicks.yml:34: the key enabld is not known: did you mean enabled? "
        "[CONFIG_INVALID]\n",
    ) == (kfetch("up", "--detach"))


def test_a_supervisor_that_ends_at_once(
    kfetch: Command, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the page of a supervisor that is gone; what it said last is told."""
    (shop / "sitecustomize.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(shop))
    code, out, said = kfetch("up", "--detach", "--listen", "none")

    assert (1, "") == (code, out)
    assert "the supervisor did not come up: RuntimeError: a bug" in said


def test_an_address_without_a_token(kfetch: Command, shop: Path) -> None:
    """A supervisor on a public address without a token does not start, and takes no lock."""
    code, _, said = kfetch("up", "--quiet", "--listen", "0.0.0.0:0")

    assert code == 2
    assert "needs a token" in said
    with try_lock(lock_file(shop / ".kfetch" / "storage")) as free:
        assert free


def test_a_second_supervisor(kfetch: Command, shop: Path) -> None:
    """A second supervisor is refused before it takes the address or writes to the log of the
    first."""
    storage = shop / ".kfetch" / "storage"
    with hold_supervisor_lock(storage), listening("127.0.0.1:0") as (bound, _, _):
        assert bound is not None
        taken = f"127.0.0.1:{bound.getsockname()[1]}"
        code, _, said = kfetch("up", "--quiet", "--listen", taken)

    assert 1 == code
    assert f"has a supervisor (process {os.getpid()}): end that one first" in said
    assert "" == log_file(storage).read_text()
