"""``kfetch up --detach``: a supervisor in a session of its own, up before the command returns."""

from __future__ import annotations

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

__all__ = ["BackgroundSupervisor", "start_in_background"]

_UP_WITHIN_S = 60.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class BackgroundSupervisor:
    """A supervisor that was started here, and supervises."""

    child: subprocess.Popen[bytes]
    first_words: Path
    log: Path

    def check(self) -> None:
        """Raise what it said, if it has ended."""
        if self.child.poll() is not None:
            raise _error(self.child.returncode, self.first_words.read_text(), self.log)


def start_in_background(
    project: Project, environment: str | None, listen: str | None = None
) -> BackgroundSupervisor:
    """Start it, until it supervises. Raises what it says when it can't."""
    first_words = supervisor_directory(project.storage) / "up.log"
    first_words.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "kfetch", "up", "--quiet"]
    command += ["--project", str(project.path)]
    command += ["--env", environment] if environment else []
    command += ["--listen", listen] if listen else []
    with open(first_words, "wb", opener=owner_only) as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    started = BackgroundSupervisor(child, first_words, log_file(project.storage))
    deadline = time.monotonic() + _UP_WITHIN_S
    with Store.of(project.storage) as store:
        while time.monotonic() < deadline:
            started.check()
            incumbent = store.last_supervisor()
            if incumbent and incumbent.pid == child.pid and incumbent.ended_s is None:
                return started
            time.sleep(_LOOK_S)
    raise _error(None, first_words.read_text(), started.log)


def _error(code: int | None, said: str, log: Path) -> JobsError:
    """What the child said when it gave up, as if it had been said here."""
    lines = [line.removeprefix("kfetch: ") for line in said.splitlines() if line]
    sentence = lines[-1] if lines else "it said nothing"
    if code == ConfigError.exit_code:
        return ConfigError(sentence)
    return SupervisorError(f"the supervisor did not come up: {sentence} (see {log})")
