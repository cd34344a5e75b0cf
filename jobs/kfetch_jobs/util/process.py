"""Starts a process and signals it, and never another one.

The pid *and* the start identify a process: the system uses pids again, and a signal to the wrong
process is the worst thing that kfetch could do. The start is the id of the boot and the clock
ticks since then (Linux, proc(5)). Nobody can set these. A start in seconds since 1970 moves with
the wall clock.

There are two ways to start:

- tethered: a shell is the child's parent. It waits for the end of its standard input, a pipe
  whose other end this process holds. Then it kills the child. The pipe ends with this process, even
  by SIGKILL. (Linux' PR_SET_PDEATHSIG is shorter, but follows the *thread* that started the child.)
- detached: the shell puts the child in the background and ends. The child outlives this process.

Either way the child has a session of its own, so Ctrl-C in a terminal does not reach it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from kfetch.storage.processes import process_stat

# The shell is the child's parent and has not waited for it. When the child is dead already, its pid
# is still a zombie of the shell's: `kill` cannot hit a stranger.
_TETHERED = """
exec 3<&0
"$@" </dev/null >>"$OUT" 2>&1 3<&- &
echo $!
exec >&-
read -r _ <&3
kill -9 $! 2>/dev/null
wait $!
"""
_DETACHED = """
"$@" </dev/null >>"$OUT" 2>&1 &
echo $!
"""


class Tether:
    """The pipe that ties the child to this process. Its end kills the child."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        self._shell = shell

    def cut(self) -> None:
        """Kill the child if it lives, and wait for its parent shell."""
        # It sends a line too, because a fork of this process may hold the pipe open.
        with suppress(BrokenPipeError, ValueError):
            self._shell.communicate("\n")
        self._shell.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedProcess:
    """A process that ``launch`` has started."""

    pid: int
    started: float
    """The start time by the wall clock: seconds since 1970."""
    start: str
    """The start by boot and clock ticks; see ``start_of``."""
    tether: Tether | None
    """None if the process is detached."""


def launch(command: Sequence[str], *, output: Path, detached: bool) -> LaunchedProcess | None:
    """Start ``command`` and append its output to a file. Returns None if it has ended already."""
    shell = subprocess.Popen(
        ["/bin/sh", "-c", _DETACHED if detached else _TETHERED, "sh", *command],
        stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env=os.environ | {"OUT": str(output)},
        cwd=output.parent,
    )
    assert shell.stdout is not None
    with shell.stdout as reply:
        pid = int(reply.readline())
    shell.stdout = None
    if detached:
        shell.wait()
    return _launched_process(pid, None if detached else Tether(shell))


def _launched_process(pid: int, tether: Tether | None) -> LaunchedProcess | None:
    try:
        started = psutil.Process(pid).create_time()
        return LaunchedProcess(pid=pid, started=started, start=start_of(pid), tether=tether)
    except psutil.NoSuchProcess:
        if tether:
            tether.cut()
        return None


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def start_of(pid: int) -> str:
    """Returns ``BOOT/TICKS`` of the process that has this pid now.

    Returns an empty text if there is no such process, or where the system has no /proc.
    """
    boot = _boot_id()
    try:
        ticks = process_stat(pid).started
    except OSError:
        return ""
    return f"{boot}/{ticks}" if boot and ticks else ""


@cache
def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


_CLOCK_STEP_S = 5
"""psutil adds the kernel's boot time, which moves when somebody sets the clock."""


def find(pid: int | None, started: float | None, start: str = "") -> psutil.Process | None:
    """Returns the living process with this pid and start; None if it ended or is a zombie.

    ``started`` is the start time by the wall clock, in seconds since 1970. It decides only if there
    is no ``start``: in records of an older kfetch, and where the system has no /proc.
    """
    if pid is None or started is None:
        return None
    try:
        process = psutil.Process(pid)
        same = start_of(pid) == start if start else _is_near(process.create_time(), started)
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def _is_near(created_s: float, started_s: float) -> bool:
    return abs(created_s - started_s) < _CLOCK_STEP_S


def wait_until(condition: Callable[[], bool], deadline: float, pause_s: float = 0.05) -> bool:
    """Wait until the condition holds. Returns False if the deadline (``time.monotonic``) passes."""
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
    return True
