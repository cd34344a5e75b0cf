"""Reads a job's files: as they are now, for an order; as they were, for a run that goes on."""

from __future__ import annotations

from kfetch_jobs import config
from kfetch_jobs.config import Job, Project
from kfetch_jobs.config.snapshot import read_snapshot, snapshot_path
from kfetch_jobs.errors import ConfigError, SupervisorError
from kfetch_jobs.supervise.store import Run

__all__ = ["job_now", "job_of_run"]


def job_now(project: Project, name: str) -> Job:
    """Return a job as its files are now: its own, the project's, and its environment's.

    Raises ConfigError for a mistake, and SupervisorError if the job may not run here.
    """
    now = config.load(project.path, project.environ, project.environment_name)
    try:
        if now.storage != project.storage:
            raise SupervisorError(
                f"{project.path} names another storage: kfetch down, then kfetch up"
            )
        job = now.job(name)
    finally:
        project.secrets.update(now.secrets)
    if not job.file.enabled:
        raise SupervisorError(f"job {name} is disabled in its file: enabled: false")
    return job


def job_of_run(project: Project, run: Run) -> Job | None:
    """Return the job as it was validated for this run; None if that is not known."""
    try:
        texts = read_snapshot(snapshot_path(project.storage / run.job), run.id)
        then = config.load(project.path, project.environ, project.environment_name, texts)
        job = then.job(run.job) if then.storage == project.storage else None
    except ConfigError:  # a supervisor of an older kfetch has started it, or a variable is gone
        return None
    project.secrets.update(then.secrets)
    return job
