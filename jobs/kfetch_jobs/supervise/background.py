"""``kfetch up --detach``: starts a supervisor in its own session and waits until it supervises.

A supervisor that supervises tells the sentence about its page by a pipe. Its socket listens by
then, so a browser that asks at once gets its answer.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from pathlib import Path

from kfetch_jobs.config import Project
from kfetch_jobs.errors import ConfigError, JobsError, SupervisorError
from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.supervise.supervisor_log import log_file
from kfetch_jobs.util.files import owner_only

_UP_WITHIN_S = 60.0
_SENTENCE_MAX = 4096
_CODE = re.compile(r" \[[A-Z_.]+\]$")
"""The code of the supervisor's error. The error that this process raises shows it again."""


def start_in_background(project: Project, listen: str | None = None) -> tuple[int, str]:
    """Start a supervisor and wait until it supervises. Raises its error if it cannot start.

    Returns its pid and the sentence about its page.
    """
    startup_log = supervisor_directory(project.storage) / "up.log"
    startup_log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "kfetch", "up", "--quiet", "--tell"]
    command += ["--project", str(project.path)]
    command += ["--env", project.environment_name] if project.environment_name else []
    command += ["--listen", listen] if listen else []
    with open(startup_log, "wb", opener=owner_only) as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    log = log_file(project.storage)
    assert child.stdout is not None
    with child.stdout as told:
        if not select.select([told], [], [], _UP_WITHIN_S)[0]:
            within = f"within {_UP_WITHIN_S:.0f} s"
            raise SupervisorError(f"the supervisor did not come up {within} (see {log})")
        sentence = os.read(told.fileno(), _SENTENCE_MAX).decode().strip()
    if not sentence:
        raise _error(child.wait(), startup_log.read_text(), log)
    return child.pid, sentence


def _error(exit_code: int, output: str, log: Path) -> JobsError:
    """The error of the supervisor, from its output."""
    lines = [line.removeprefix("kfetch: ") for line in output.splitlines() if line]
    sentence = _CODE.sub("", lines[-1]) if lines else "it said nothing"
    if exit_code == ConfigError.exit_code:
        return ConfigError(sentence)
    return SupervisorError(f"the supervisor did not come up: {sentence} (see {log})")
