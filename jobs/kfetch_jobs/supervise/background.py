"""``kfetch up --detach``: starts a supervisor in its own session and waits until it supervises."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from kfetch_jobs.config import Project
from kfetch_jobs.errors import ConfigError, JobsError, SupervisorError
from kfetch_jobs.supervise.store import Store, supervisor_directory
from kfetch_jobs.supervise.supervisor_log import log_file
from kfetch_jobs.util.files import owner_only

_UP_WITHIN_S = 60.0
_POLL_S = 0.1


_CODE = re.compile(r" \[[A-Z_.]+\]$")
"""The code of the supervisor's error. The error that this process raises shows it again."""


@dataclass(frozen=True, slots=True)
class BackgroundSupervisor:
    """A supervisor that this process has started."""

    child: subprocess.Popen[bytes]
    startup_log: Path
    log: Path

    def check(self) -> None:
        """Raises the supervisor's own error if it has ended."""
        if self.child.poll() is not None:
            raise _error(self.child.returncode, self.startup_log.read_text(), self.log)


def start_in_background(
    project: Project, environment: str | None, listen: str | None = None
) -> BackgroundSupervisor:
    """Start a supervisor and wait until it supervises. Raises its error if it cannot start."""
    startup_log = supervisor_directory(project.storage) / "up.log"
    startup_log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "kfetch", "up", "--quiet"]
    command += ["--project", str(project.path)]
    command += ["--env", environment] if environment else []
    command += ["--listen", listen] if listen else []
    with open(startup_log, "wb", opener=owner_only) as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    supervisor = BackgroundSupervisor(child, startup_log, log_file(project.storage))
    deadline = time.monotonic() + _UP_WITHIN_S
    with Store.of(project.storage) as store:
        while time.monotonic() < deadline:
            supervisor.check()
            running = store.last_supervisor()
            if running and running.pid == child.pid and running.ended_s is None:
                return supervisor
            time.sleep(_POLL_S)
    raise _error(None, startup_log.read_text(), supervisor.log)


def _error(exit_code: int | None, output: str, log: Path) -> JobsError:
    """The error of the supervisor, from its output."""
    lines = [line.removeprefix("kfetch: ") for line in output.splitlines() if line]
    sentence = _CODE.sub("", lines[-1]) if lines else "it said nothing"
    if exit_code == ConfigError.exit_code:
        return ConfigError(sentence)
    return SupervisorError(f"the supervisor did not come up: {sentence} (see {log})")
