"""A process of the demo: ``kfetch run JOB`` or ``kfetch up``, in a session of its own.

The process ends when this one ends, even by SIGKILL: it has the same tether as a local broker. Its
JVM and Python workers end when their parent is gone.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from kfetch_jobs.errors import DemoError
from kfetch_jobs.util.process import LaunchedProcess, find, launch, wait_until


class Worker:
    """One process of the command line, for a project.

    ``words`` are the verb and its arguments. The process appends its output to ``log``.
    """

    def __init__(
        self, words: Sequence[str], project: Path, environ: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        self._verb = words[0]
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [
            "env",
            *(f"{name}={value}" for name, value in environ.items()),
            *(sys.executable, "-m", "kfetch", *words),
            *("--project", str(project)),
        ]
        self.started = time.time()
        self._launched: LaunchedProcess | None = launch(command, output=self._log, detached=False)

    @property
    def _process(self) -> psutil.Process | None:
        launched = self._launched
        return find(launched.pid, launched.started, launched.start) if launched else None

    def check(self) -> None:
        """Raises DemoError with the last error line, if the process has ended by itself."""
        if self._process is None:
            lines = self._log.read_text().splitlines() if self._log.exists() else []
            error = next((line for line in reversed(lines) if line.startswith("kfetch: ")), "")
            sentence = re.sub(r" \[[A-Z_.]+\]$", "", error.removeprefix("kfetch: "))
            raise DemoError(
                f"the process of kfetch {self._verb} ended: {sentence or 'it printed no error'}"
            )

    def kill(self) -> int:
        """Send SIGKILL to the process and its descendants. Returns how many there were."""
        root = self._process
        tree: list[psutil.Process] = []
        if root is not None:
            with suppress(psutil.NoSuchProcess):
                tree = [root, *root.children(recursive=True)]
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self._launched and self._launched.tether:
            self._launched.tether.cut()
        wait_until(lambda: not any(map(_is_alive, tree)), time.monotonic() + 10)
        return len(tree)

    def stop(self, timeout_s: float = 60) -> None:
        """Send SIGTERM: the job ends after its micro-batch. SIGKILL follows after ``timeout_s``."""
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: self._process is None, time.monotonic() + timeout_s)
        self.kill()


def _is_alive(process: psutil.Process) -> bool:
    # A zombie is dead. Its new parent collects it.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
