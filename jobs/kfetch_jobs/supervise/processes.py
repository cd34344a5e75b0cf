"""A run's process: started in a session of its own, found again, told to end, ended for good.

The session has the job's Python, its JVM and Spark's Python workers; it survives the supervisor. A
process is known by pid and start time, a run's by a mark in the environment of all it started:
so even one whose start could not be noted any more is found.
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

from kfetch_jobs.kafka.process import find
from kfetch_jobs.util.files import owner_only

__all__ = ["MARK", "RunProcess", "adopt", "find_by_mark", "launch"]

MARK = "KFETCH_RUN"
_LOG_BYTES_MAX = 16 << 20
"""A run's log and Spark's begin anew beyond this, at a run's start; one older is kept of each."""
_GONE_WITHIN_S = 10.0


@dataclass(slots=True)
class RunProcess:
    """The leader of a run's session."""

    pid: int
    started: float
    mark: str
    """Of the run: all that it started has it in the environment."""
    child: subprocess.Popen[bytes] | None = None
    """None if another supervisor started it: then init collects it."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        if self.child is not None:
            return self.child.poll() is None
        return find(self.pid, self.started) is not None

    def end(self) -> None:
        """SIGTERM to the leader: the job ends after its micro-batch."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> bool:
        """SIGKILL to the whole session; whether all are gone."""
        deadline = time.monotonic() + _GONE_WITHIN_S
        while left := self._session():
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            if time.monotonic() > deadline:
                return False
            psutil.wait_procs(left, timeout=0.1)
        if self.child is not None:
            self.child.wait()
        return True

    def _session(self) -> list[psutil.Process]:
        """Who lives of the session. Its number may be another's by now: the mark is not."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == self.pid and _has(process, self.mark):
                    found.append(process)
        return found


def _has(process: psutil.Process, mark: str) -> bool:
    return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark


def launch(
    command: Sequence[str], *, log: Path, directory: Path, mark: str, environ: Mapping[str, str]
) -> RunProcess:
    """Start a run. Raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True)
    for path in (log, log.with_name("spark.log")):
        _begin_anew(path)
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
    return RunProcess(child.pid, started, mark, child)


def _begin_anew(log: Path) -> None:
    with suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_BYTES_MAX:
            os.replace(log, log.with_suffix(f".1{log.suffix}"))


def adopt(pid: int, started: float, mark: str) -> RunProcess:
    """A process that another supervisor started, alive or not."""
    return RunProcess(pid, started, mark)


def find_by_mark(mark: str) -> RunProcess | None:
    """The leader of the run with this mark, alive or not, if any of its processes lives."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            # An agent has a session of its own, and leaves by itself when its JVM is gone.
            if _has(process, mark) and _AGENT not in process.cmdline():
                found.append((process.create_time(), os.getsid(process.pid)))
    if not found:
        return None
    started, leader = min(found)
    return RunProcess(leader, started, mark)


_AGENT = "kfetch.agent"
