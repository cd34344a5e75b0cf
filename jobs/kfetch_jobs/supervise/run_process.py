"""The process of a recorded run, its command, and what a killed run leaves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from kfetch_jobs.config import Project
from kfetch_jobs.config.snapshot import snapshot_path
from kfetch_jobs.jvm.properties import settings_path
from kfetch_jobs.supervise.processes import RunProcess, find_by_mark
from kfetch_jobs.supervise.store import Run

Command = Callable[[str, Path], Sequence[str]]
"""Returns the command for a run, from the job's name and the path of its exit report."""

NO_PID = 0
"""The number of a process that was never seen. No process of a user has it."""


def command_for_runs(project: Project) -> Command:
    """Returns the command ``kfetch run`` with this Python and this project."""
    environment = ["--env", project.environment_name] if project.environment_name else []

    def command(job: str, report_file: Path) -> list[str]:
        return [
            # -P: a package of the project must not pass for kfetch's.
            *(sys.executable, "-P", "-m", "kfetch", "run", job),
            *("--project", str(project.path), "--ending", str(report_file)),
            *("--files", str(snapshot_path(project.storage / job))),
            *environment,
        ]

    return command


def run_mark(storage: Path, run: int) -> str:
    """Returns the mark in the environment of all processes of a run."""
    return f"{storage}#{run}"


def remove_settings(storage: Path, job: str) -> None:
    """Remove the file with Spark's settings that a killed run has left."""
    with suppress(OSError):  # the next run removes it too
        settings_path(storage / job / "spark.log").unlink()


def run_process(storage: Path, run: Run) -> RunProcess:
    """Returns the process of a run, alive or not."""
    mark = run_mark(storage, run.id)
    if run.pid is None or run.process_started_s is None:
        # Its supervisor died before the start of the process, or before it recorded the pid.
        return find_by_mark(mark) or RunProcess(NO_PID, 0.0, "", mark)
    return RunProcess(run.pid, run.process_started_s, run.process_start, mark)
