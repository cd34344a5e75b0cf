"""Processes that are started with and without a tether."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from kfetch_jobs.util import process


def wait_dead(begun: process.LaunchedProcess) -> bool:
    gone = time.monotonic() + 60
    return process.wait_until(lambda: process.find(begun.pid, begun.started) is None, gone)


@pytest.mark.parametrize("detached", [True, False])
def test_launch_names_the_process_itself(tmp_path: Path, detached: bool) -> None:
    """The pid is the command's, not the shell's, and its output goes to the file."""
    (tmp_path / "out").touch()
    command = ["/bin/sh", "-c", "echo $$ 'a b'; exec sleep 60"]
    begun = process.launch(command, output=tmp_path / "out", detached=detached)
    assert begun is not None
    written = f"{begun.pid} a b\n"
    deadline = time.monotonic() + 60
    said = process.wait_until(lambda: (tmp_path / "out").read_text() == written, deadline)
    found = process.find(begun.pid, begun.started)
    if found:
        found.kill()
    dead = wait_dead(begun)
    if begun.tether:
        begun.tether.cut()
    assert (said, found is not None, dead) == (True, True, True)
    assert (begun.tether is None) == detached


def test_cutting_the_tether_kills(tmp_path: Path) -> None:
    """A process that is not detached lives only as long as its tether."""
    begun = process.launch(["sleep", "60"], output=tmp_path / "out", detached=False)
    assert begun is not None
    assert begun.tether is not None
    begun.tether.cut()
    assert wait_dead(begun)


@pytest.fixture
def clock_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sets the clock an hour ahead: psutil's start times move with it."""
    create_time = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: create_time(self) + 3600)


def test_a_set_clock_hides_no_process(monkeypatch: pytest.MonkeyPatch, clock_step: None) -> None:
    """The boot and the start in ticks identify a process, whatever the clock says. A record of the
    previous release has no such start, and there the clock still decides."""
    pid = os.getpid()
    before_s = psutil.Process(pid).create_time() - 3600
    start = process.start_of(pid)
    boot, ticks = start.split("/")

    assert process.find(pid, before_s, start) == psutil.Process(pid)
    assert process.find(pid, before_s, f"{boot}/{int(ticks) + 1}") is None
    assert process.find(pid, before_s, f"another-boot/{ticks}") is None
    assert process.find(pid, before_s) is None
    assert process.find(pid, before_s + 3600) == psutil.Process(pid)


def test_no_process_no_start() -> None:
    """A process that does not exist has no start, and nobody finds it."""
    assert process.start_of(2**22 + 1) == ""
    assert process.find(2**22 + 1, 1.0, "boot/1") is None


def test_waiting_ends_at_the_deadline() -> None:
    """The wait for a condition that never holds ends on time."""
    assert not process.wait_until(lambda: False, time.monotonic() + 0.02, pause_s=0.01)
    assert process.wait_until(lambda: True, time.monotonic())
