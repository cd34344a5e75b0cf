"""Projects for the tests: job files as text, loaded as ``kfetch run`` loads them."""

from __future__ import annotations

from pathlib import Path

from kfetch_jobs import config
from kfetch_jobs.config import Job, Project
from kfetch_jobs.kafka import Cluster

PROJECT = """\
storage: storage
spark:
  spark.master: local[2]
  spark.driver.memory: 600m
  spark.driver.extraJavaOptions: -XX:+UseSerialGC -XX:TieredStopAtLevel=1
  # As in conf/kfetch.yml. The tests with the oldest and the newest Spark have Spark's default.
  spark.sql.streaming.checkpointFileManagerClass: >-
    org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
clusters:
  main:
    bootstrap.servers: {servers}
"""


def write(directory: Path, kafka: Cluster, **jobs: str) -> Project:
    """Write a project with these jobs, and read it."""
    (directory / "jobs").mkdir(parents=True, exist_ok=True)
    (directory / "kfetch.yml").write_text(PROJECT.format(servers=kafka.bootstrap_servers))
    for name, text in jobs.items():
        (directory / "jobs" / f"{name}.yml").write_text(text)
    return config.load(directory / "kfetch.yml", {})


def job(directory: Path, kafka: Cluster, text: str) -> Job:
    """The one job of a project."""
    return write(directory, kafka, one=text).job("one")
