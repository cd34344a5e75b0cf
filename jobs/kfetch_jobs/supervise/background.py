"""``kfetch up --detach``: starts a supervisor in its own session and waits until it supervises.

A supervisor that supervises notes its pid and the sentence about its page in a file. Its socket
listens by then, so a browser that asks at once gets its answer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kfetch_jobs.config import Project
from kfetch_jobs.errors import ConfigError, JobsError, SupervisorError
from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.supervise.supervisor_log import log_file
from kfetch_jobs.util.files import owner_only, read_json, write_json

_UP_WITHIN_S = 60.0
_POLL_S = 0.1


_CODE = re.compile(r" \[[A-Z_.]+\]$")
"""The code of the supervisor's error. The error that this process raises shows it again."""


def _note(storage: Path) -> Path:
    return supervisor_directory(storage) / "page.json"


def note_up(storage: Path, page: str) -> None:
    """Note that this process supervises. ``page`` is the sentence about its page."""
    write_json(_note(storage), {"pid": os.getpid(), "page": page})


def forget_up(storage: Path) -> None:
    """Remove an earlier supervisor's note: the next supervisor may get the same pid."""
    _note(storage).unlink(missing_ok=True)


def wait_until_up(storage: Path, pid: int, check: Callable[[], None]) -> str:
    """Wait until the process ``pid`` supervises. Returns the sentence about its page.

    It calls ``check`` while it waits; ``check`` may raise. Raises SupervisorError after a minute.
    """
    deadline = time.monotonic() + _UP_WITHIN_S
    while time.monotonic() < deadline:
        check()
        note = read_json(_note(storage))
        if note.get("pid") == pid:
            return str(note.get("page"))
        time.sleep(_POLL_S)
    raise SupervisorError(
        f"the supervisor did not come up within {_UP_WITHIN_S:.0f} s (see {log_file(storage)})"
    )


def start_in_background(project: Project, listen: str | None = None) -> tuple[int, str]:
    """Start a supervisor and wait until it supervises. Raises its error if it cannot start.

    Returns its pid and the sentence about its page.
    """
    forget_up(project.storage)
    startup_log = supervisor_directory(project.storage) / "up.log"
    startup_log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "kfetch", "up", "--quiet"]
    command += ["--project", str(project.path)]
    command += ["--env", project.environment_name] if project.environment_name else []
    command += ["--listen", listen] if listen else []
    with open(startup_log, "wb", opener=owner_only) as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def check() -> None:
        if child.poll() is not None:
            raise _error(child.returncode, startup_log.read_text(), log_file(project.storage))

    return child.pid, wait_until_up(project.storage, child.pid, check)


def _error(exit_code: int, output: str, log: Path) -> JobsError:
    """The error of the supervisor, from its output."""
    lines = [line.removeprefix("kfetch: ") for line in output.splitlines() if line]
    sentence = _CODE.sub("", lines[-1]) if lines else "it said nothing"
    if exit_code == ConfigError.exit_code:
        return ConfigError(sentence)
    return SupervisorError(f"the supervisor did not come up: {sentence} (see {log})")
