"""A job that is written straight needs no Delta in Spark: no JAR, and any version of Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration.conftest import TopicFactory
from integration.delta.readers import places
from integration.records import write
from integration.running.commands import Project
from integration.running.project import job
from integration.sessions import checkpoints_in_files
from kfetch_jobs.jvm.maven import CACHE_VARIABLE
from kfetch_jobs.kafka import Cluster

# In .ci/run, the short tests of `make sparks` have it, with the oldest and the newest Spark.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(300), pytest.mark.long]

JOB = """\
source:
  cluster: main
  subscribe: {topic}
  options: {{startingOffsets: earliest, valueFormat: json, valueSchema: id BIGINT}}
transform: {{sql: "SELECT value.id, partition, offset FROM source"}}
sink: {{path: table, write: straight, deadLetters: {{path: dead}}}}
trigger: availableNow
"""


def test_a_job_without_delta(kafka: Cluster, topic: TopicFactory, tmp_path: Path) -> None:
    """A new table, a second run, and a new checkpoint beside the table, which is refused. Nothing
    was downloaded for it. Dead letters go to a table of their own."""
    name = topic(1)
    job(tmp_path, kafka, JOB.format(topic=name))
    _name_the_file_manager(tmp_path / "kfetch.yml")
    project = Project(tmp_path, kafka, **{CACHE_VARIABLE: str(tmp_path / "cache")})
    for run in range(2):
        write(kafka, name, ['{"id": 1}', "[", '{"id": 2}'])
        assert "ended: 1 micro-batch, 3 records" in project.run("run", "one").stderr
        good = [(0, 3 * batch + n) for batch in range(run + 1) for n in (0, 2)]
        assert good == places(tmp_path / "table")
        assert run + 1 == len(places(tmp_path / "dead"))

    shutil.rmtree(tmp_path / "storage")
    assert "has rows of a query that this storage lacks" in project.run("run", "one").stderr
    assert not (tmp_path / "cache" / "maven").exists()


def _name_the_file_manager(project: Path) -> None:
    """Spark 4.0 has it in another package."""
    (ours,) = checkpoints_in_files("4.2").values()
    (there,) = checkpoints_in_files().values()
    project.write_text(project.read_text().replace(ours, there))
