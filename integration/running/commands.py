"""A project as its user has it: commands given in its directory, and what they print."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psutil

from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.supervise.processes import MARK
from kfetch_jobs.util.files import read_disk_space


class Project:
    """A directory in which commands are given.

    ``command`` starts kfetch, with the variables ``environ``: by default those of the tests.
    """

    def __init__(
        self,
        directory: Path,
        kafka: Cluster,
        *,
        command: Sequence[str] = (sys.executable, "-P", "-m", "kfetch"),
        environ: Mapping[str, str] = os.environ,
        **variables: str,
    ) -> None:
        space = read_disk_space(directory)
        assert space is None or not space.short, f"jobs are unhealthy on such a disk: {space}"
        self.directory = directory
        self.environ = {**environ, "KFETCH_BOOTSTRAP": kafka.bootstrap_servers, **variables}
        self._command = command

    def kfetch(self, *words: str, code: int = 0) -> str:
        """One command; what it printed."""
        done = self.run(*words)
        assert code == done.returncode, done.stdout + done.stderr
        return done.stdout

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command, however it ends."""
        return subprocess.run(
            [*self._command, *words],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def kill_when(self, condition: Callable[[], object], *words: str) -> None:
        """Start a command, and kill it with its processes as soon as the condition holds."""
        with subprocess.Popen(
            [*self._command, *words],
            cwd=self.directory,
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            deadline = time.monotonic() + PATIENCE_S
            while not condition():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.005)
            os.killpg(process.pid, signal.SIGKILL)

    def status(self, code: int = 0) -> Any:
        return json.loads(self.kfetch("status", "--json", code=code))

    def jobs(self) -> dict[str, Any]:
        """All jobs by name, however healthy they are."""
        told = json.loads(self.run("status", "--json").stdout)
        return {job["name"]: job for job in told["jobs"]}

    def job(self) -> Any:
        """The one job."""
        return next(iter(self.jobs().values()))

    def until(self, condition: Callable[[Any], object]) -> Any:
        """Wait for a condition of the one job. Returns the job's state then."""
        deadline = time.monotonic() + PATIENCE_S
        with self._status_lines() as lines:
            for line in lines:
                (job,) = json.loads(line)["jobs"]
                if condition(job):
                    return job
                assert time.monotonic() < deadline, (job, self.kfetch("logs", job["name"]))
        raise AssertionError("kfetch status --watch has ended")

    @contextmanager
    def _status_lines(self) -> Iterator[IO[str]]:
        """The status as a line of JSON each second, from one process."""
        command = [*self._command, "status", "--watch", "--json"]
        with subprocess.Popen(
            command, cwd=self.directory, env=self.environ, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.kill()

    def processes(self) -> list[psutil.Process]:
        """What lives of all runs."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK, "").startswith(f"{self.directory}/"):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found
