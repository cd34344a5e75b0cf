"""``kfetch up --detach``: a supervisor in a session of its own, up before the command returns."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from jobs.config import Project
from jobs.errors import SupervisorError
from jobs.spark import python_path
from jobs.supervise.log import log_file
from jobs.supervise.store import Store, directory

__all__ = ["start_in_background"]

_UP_WITHIN_S = 60.0
_LOOK_S = 0.1


def start_in_background(project: Project, environment: str | None) -> int:
    """Start it; its process id once it supervises. Raises what it says when it can't."""
    project.check()  # mistakes are told here, not in a file
    first_words = directory(project.storage) / "up.log"
    first_words.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "jobs.cli", "up", "--quiet"]
    command += ["--project", str(project.path)]
    command += ["--env", environment] if environment else []
    with first_words.open("wb") as output:
        child = subprocess.Popen(
            [
                *command,
                "--project",
                str(project.path),
                *(["--env", environment] if environment else []),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": python_path()},
        )
    deadline = time.monotonic() + _UP_WITHIN_S
    with Store.of(project.storage) as store:
        while child.poll() is None and time.monotonic() < deadline:
            incumbent = store.incumbent()
            if incumbent and incumbent.pid == child.pid and incumbent.ended_s is None:
                return child.pid
            time.sleep(_LOOK_S)
    said = first_words.read_text().splitlines()
    last = next((line.removeprefix("kfetch: ") for line in reversed(said) if line), "no word")
    raise SupervisorError(
        f"the supervisor did not come up: {last} (see {log_file(project.storage)})"
    )
