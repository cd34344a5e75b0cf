"""Starts a JVM and signals it, and never another process.

The pid *and* the start time identify a process: the system uses pids again, and a signal to the
wrong process is the worst thing this package could do.

There are two ways to start:

- tethered: a shell is the parent of the JVM. It waits for the end of its standard input, a pipe
  whose other end this process holds. Then it kills the JVM. The pipe ends with this process, even
  by SIGKILL. (Linux' PR_SET_PDEATHSIG is shorter, but follows the *thread* that started the child.)
- detached: the shell puts the JVM in the background and ends. The JVM outlives this process.

Either way the JVM has a session of its own, so Ctrl-C in a terminal does not reach it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["LaunchedProcess", "Tether", "cpu_seconds", "find", "launch"]

# The shell is the JVM's parent and has not waited for it, so when the JVM is dead already, its pid
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
    """The pipe that ties the JVM to this process. Its end kills the JVM."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        self._shell = shell

    def cut(self) -> None:
        """Kill the JVM if it lives, and wait for its parent shell."""
        # It sends a line too, because a fork of this process may hold the pipe open.
        with suppress(BrokenPipeError, ValueError):
            self._shell.communicate("\n")
        self._shell.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedProcess:
    """A process that ``launch`` has started."""

    pid: int
    started: float
    tether: Tether | None
    """None if it is detached"""


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
        return LaunchedProcess(pid=pid, started=psutil.Process(pid).create_time(), tether=tether)
    except psutil.NoSuchProcess:
        if tether:
            tether.cut()
        return None


# psutil adds the kernel's boot time in whole seconds. It changes by a second or more when somebody
# sets the clock, so equality would take a living node for dead. Pids are used again much later.
_CLOCK_STEP_S = 5


def find(pid: int | None, started: float | None) -> psutil.Process | None:
    """Returns the living process with this pid and start time; None if it ended or is a zombie."""
    if pid is None or started is None:
        return None
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < _CLOCK_STEP_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def cpu_seconds(process: psutil.Process) -> float:
    """Returns the user and system time of all threads so far, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)
