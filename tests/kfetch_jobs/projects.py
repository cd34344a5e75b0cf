"""A small project to make mistakes in."""

from __future__ import annotations

from kfetch_jobs.config import Job, Project
from kfetch_jobs.errors import ConfigError

PROJECT = """\
storage: ../data
spark:
  spark.master: local[2]
clusters:
  local:
    bootstrap.servers: ${env:SERVERS}
    fetch.max.bytes: 1000
"""
JOB = """\
source:
  cluster: local
  subscribe: clicks
  options:
    startingOffsets: earliest
    includeHeaders: true
transform:
  sql: SELECT * FROM source
sink:
  format: delta
  path: ${storage}/clicks/table
trigger:
  processingTime: 2s
"""
ENVIRON = {"SERVERS": "127.0.0.1:9092"}


def checked(project: Project) -> dict[str, Job]:
    """Returns every job. Raises ConfigError with the mistakes of all files."""
    jobs, mistakes = project.jobs_and_mistakes()
    if mistakes:
        raise ConfigError(*mistakes)
    return jobs
