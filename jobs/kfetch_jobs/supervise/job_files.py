"""Reads the files of a running supervisor's jobs again.

An order and the page get them as they are now, and a run that goes on as they were at its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from kfetch_jobs import config
from kfetch_jobs.config import Job, Project
from kfetch_jobs.config.snapshot import read_snapshot, snapshot_path
from kfetch_jobs.errors import ConfigError, SupervisorError
from kfetch_jobs.supervise.store import Run


def job_now(project: Project, name: str) -> Job:
    """Returns a job as its files are now: its own, the project's, and its environment's.

    Raises ConfigError for a mistake, and SupervisorError if the job may not run here.
    """
    now = _loaded(project)
    if now.storage != project.storage:
        raise SupervisorError(f"{project.path} names another storage: kfetch down, then kfetch up")
    job = now.job(name)
    if not job.file.enabled:
        raise SupervisorError(f"job {name} is disabled in its file: enabled: false")
    return job


def job_of_run(project: Project, run: Run) -> Job | None:
    """Returns the job as it was validated for this run; None if that is not known."""
    try:
        texts = read_snapshot(snapshot_path(project.storage / run.job), run.id)
        then = _loaded(project, texts)
        return then.job(run.job) if then.storage == project.storage else None
    except ConfigError:  # a supervisor of an older kfetch has started it, or a variable is gone
        return None


def project_now(project: Project) -> Project:
    """Returns the project as its file is now; as it was, if that has a mistake or another storage.

    The jobs that run are of the earlier text then.
    """
    try:
        now = _loaded(project)
    except ConfigError:
        return project
    return now if now.storage == project.storage else project


def _loaded(project: Project, texts: Mapping[Path, str] = MappingProxyType({})) -> Project:
    """Read the project again. It shares its secrets, which the logs must not show."""
    read = config.load(project.path, project.environ, project.environment_name, texts)
    project.secrets.update(read.secrets)
    return replace(read, secrets=project.secrets)
