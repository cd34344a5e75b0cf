"""The processes of a run: start them in their own session, find them again, end them.

The session has the job's Python, its JVM and Spark's Python workers. It survives the supervisor. A
pid and a start identify a process. A mark in the environment identifies all processes of a run. So
the next supervisor finds a run even if this one dies before it records the pid.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from kfetch_jobs.util.files import owner_only
from kfetch_jobs.util.process import find, start_of, wait_until

MARK = "KFETCH_RUN"
GONE_WITHIN_S = 10.0
"""A killed process that lives for longer is worth an error."""
_POLL_S = 0.1


@dataclass(slots=True)
class RunProcess:
    """The first process of a run, which leads its session."""

    pid: int
    started: float
    """The start time by the wall clock: seconds since 1970."""
    start: str
    """The start by boot and clock ticks."""
    mark: str
    """The run's mark, in the environment of all its processes."""
    child: subprocess.Popen[bytes] | None = None
    """None if another supervisor started the process: then init reaps it."""

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        if self.child is not None:
            return self.child.poll() is None
        return find(self.pid, self.started, self.start) is not None

    def end(self) -> None:
        """Send SIGTERM to the leader: the job ends after its micro-batch."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self, within_s: float = 0.0) -> bool:
        """Send SIGKILL to the whole session, and return whether all processes are gone.

        A process at a disk that does not answer may stay for long, so ``within_s`` limits the wait.
        """
        deadline = time.monotonic() + within_s
        while living := self._session():
            for process in living:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            if time.monotonic() >= deadline:
                return False
            psutil.wait_procs(living, timeout=0.1)
        return not self.alive

    def _session(self) -> list[psutil.Process]:
        """The living processes of the session.

        The system may reuse the session's number. So the mark decides.
        """
        living = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == self.pid and _has_mark(process, self.mark):
                    living.append(process)
        return living


def end_together(processes: Sequence[RunProcess], timeout_s: float) -> list[bool]:
    """End runs after their micro-batches; kill those that still run after ``timeout_s`` seconds.

    Returns for each run whether all of its processes are gone.
    """
    for process in processes:
        process.end()
    return kill_together(processes, timeout_s)


def kill_together(processes: Sequence[RunProcess], after_s: float) -> list[bool]:
    """Kill runs that have not ended by themselves ``after_s`` seconds from now.

    Returns for each run whether all of its processes are gone.
    """
    deadline = time.monotonic() + after_s
    wait_until(lambda: not any(process.alive for process in processes), deadline, _POLL_S)
    for process in processes:
        process.kill()
    deadline = time.monotonic() + GONE_WITHIN_S
    return [process.kill(deadline - time.monotonic()) for process in processes]


def _has_mark(process: psutil.Process, mark: str) -> bool:
    return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark


def launch(
    command: Sequence[str], *, log: Path, directory: Path, mark: str, environ: Mapping[str, str]
) -> RunProcess:
    """Start the process of a run, and return it. Raises OSError.

    ``log`` gets its output, ``directory`` is its working directory.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", opener=owner_only) as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=directory,
            env=dict(environ) | {MARK: mark},
        )
    try:
        started = psutil.Process(child.pid).create_time()
    except psutil.NoSuchProcess:
        started = time.time()
    return RunProcess(child.pid, started, start_of(child.pid), mark, child)


def find_by_mark(mark: str) -> RunProcess | None:
    """Returns the leader of the run with this mark; None if no process of the run lives."""
    leaders = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            # An agent has its own session, and ends by itself after its JVM.
            if _has_mark(process, mark) and _AGENT not in process.cmdline():
                leader = os.getsid(process.pid)
                leaders.append((process.create_time(), leader, start_of(process.pid)))
    if not leaders:
        return None
    started, leader, start = min(leaders)
    return RunProcess(leader, started, start, mark)


_AGENT = "kfetch.agent"
