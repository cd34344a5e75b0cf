"""The job's process: ``kfetch run``, started in a session of its own, killed without warning.

It ends when this process ends, however that happens: it hangs on the same tether as a broker, and
its JVM and Python workers leave when their parent is gone.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from kfetch_jobs.config import Job
from kfetch_jobs.errors import DemoError
from kfetch_jobs.kafka.process import LaunchedProcess, find, launch
from kfetch_jobs.kafka.ready import wait_until

__all__ = ["Worker"]


class Worker:
    """One life of the job's process."""

    def __init__(self, job: Job, project: Path, environ: Mapping[str, str]) -> None:
        self._log = job.directory / "run.log"
        job.directory.mkdir(parents=True, exist_ok=True)
        command = [
            "env",
            *(f"{name}={value}" for name, value in environ.items()),
            *(sys.executable, "-m", "kfetch", "run", job.name),
            *("--project", str(project)),
        ]
        self.started = time.time()
        self._launched: LaunchedProcess | None = launch(command, output=self._log, detached=False)

    @property
    def _process(self) -> psutil.Process | None:
        found = self._launched
        return find(found.pid, found.started) if found else None

    def check(self) -> None:
        """Raise if the process ended by itself, with its own last words."""
        if self._process is None:
            lines = self._log.read_text().splitlines() if self._log.exists() else []
            said = next((line for line in reversed(lines) if line.startswith("kfetch: ")), "")
            raise DemoError(f"the job's process ended: {said or 'it left no word'}")

    def kill(self) -> int:
        """SIGKILL the process and all it started; how many that were. A dead one is let be."""
        found = self._process
        tree: list[psutil.Process] = []
        if found is not None:
            with suppress(psutil.NoSuchProcess):
                tree = [found, *found.children(recursive=True)]
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self._launched and self._launched.tether:
            self._launched.tether.cut()
        wait_until(lambda: not any(map(_is_alive, tree)), time.monotonic() + 10)
        return len(tree)

    def stop(self, timeout_s: float = 60) -> None:
        """SIGTERM, which ends the job after its batch; what still lives then is killed."""
        found = self._process
        if found is not None:
            found.send_signal(signal.SIGTERM)
            wait_until(lambda: self._process is None, time.monotonic() + timeout_s)
        self.kill()


def _is_alive(process: psutil.Process) -> bool:
    # A zombie is dead; whether its new parent collects it is not our affair.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
