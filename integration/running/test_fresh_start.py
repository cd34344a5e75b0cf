"""A job that has lost its checkpoint, or reads another storage, on a real Kafka, Spark and Delta.

Nothing starts anew without a word, so no offset is in the table twice, and none is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer

from integration.delta_columns import column
from integration.running.commands import Project
from integration.running.project import write
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600), pytest.mark.long]

JOB = """\
source:
  cluster: main
  subscribe: {topic}
  options: {{startingOffsets: earliest, maxOffsetsPerTrigger: 5}}
sink:
  path: {table}
trigger: availableNow
"""
MOUNT = "fs.viewfs.mounttable.kfetch.link./lake"


@pytest.fixture
def name(topic: Callable[..., str], kafka: Cluster) -> str:
    """A topic of twenty records."""
    made = topic(1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(20):
        producer.send(made, b"%d" % number).get(30)
    producer.close()
    return made


def offsets(table: Path) -> list[int]:
    """The offsets of all rows of a table."""
    return sorted(int(str(offset)) for offset in column(table, "offset"))


def refused(project: Project, trace: str, *commands: str) -> None:
    """Each command exits with an error that names the trace of earlier runs, and the way out."""
    for command in commands:
        done = project.run(*command.split())
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode in (1, 2, 3), said
        assert trace in said, said
        assert "sink.repeatRows: true" in said, said


def test_a_killed_job_without_its_checkpoint(tmp_path: Path, kafka: Cluster, name: str) -> None:
    """All commands refuse, and the table keeps its rows. With the checkpoint, each row is once."""
    table = tmp_path / "lake"
    write(tmp_path, kafka, one=JOB.format(topic=name, table=table))
    project = Project(tmp_path, kafka)
    project.kill_when(lambda: [*table.glob("_delta_log/*.json")], "run", "one")
    before = len(column(table, "offset"))
    assert 0 < before < 20

    checkpoint = tmp_path / "storage" / "one" / "checkpoint"
    checkpoint.rename(tmp_path / "away")
    refused(project, "but ", "run one", "plan one", "validate")
    project.run("up", "--detach")
    try:
        refused(project, "but ", "status")
    finally:
        project.kfetch("down", "--now")
    assert before == len(column(table, "offset"))

    (tmp_path / "away").rename(checkpoint)
    project.kfetch("run", "one")
    assert [*range(20)] == offsets(table)

    file = tmp_path / "kfetch.yml"
    file.write_text(file.read_text().replace("storage: storage", "storage: other"))
    refused(project, f"its table {table} has rows of a query", "run one", "plan one", "validate")
    assert [*range(20)] == offsets(table)

    job = tmp_path / "jobs" / "one.yml"
    job.write_text(job.read_text().replace("sink:\n", "sink:\n  repeatRows: true\n"))
    project.kfetch("run", "one")
    assert sorted([*range(20)] * 2) == offsets(table)


def test_another_file_system(tmp_path: Path, kafka: Cluster, name: str) -> None:
    """Spark finds the offsets of the checkpoint there, and the query in the table's log."""
    lake = tmp_path / "lake"
    lake.mkdir()
    text = JOB.format(topic=name, table="viewfs://kfetch/lake/table")
    text += f"checkpoint: viewfs://kfetch/lake/ck\nsingleHost: true\nspark: {{spark.hadoop.{MOUNT}: 'file://{lake}'}}\n"
    write(tmp_path, kafka, one=text)
    project = Project(tmp_path, kafka)
    project.kfetch("run", "one")
    assert not (tmp_path / "viewfs:").exists()
    assert [*range(20)] == offsets(lake / "table")

    file = tmp_path / "kfetch.yml"
    original = file.read_text()
    file.write_text(original.replace("storage: storage", "storage: other"))
    project.kfetch("run", "one")
    assert [*range(20)] == offsets(lake / "table")

    (lake / "ck").rename(lake / "away")
    refused(project, "checkpoint.origin.json tells of its earlier runs", "run one")
    file.write_text(original.replace("storage: storage", "storage: third"))
    refused(project, "its table viewfs://kfetch/lake/table has rows of a query", "run one")
    assert [*range(20)] == offsets(lake / "table")


def test_hadoops_own_configuration(tmp_path: Path, kafka: Cluster, name: str) -> None:
    """It moves paths to another file system. The run says so before it reads a record. Paths with
    ``file:`` stay here."""
    properties = {"fs.defaultFS": "viewfs://kfetch", MOUNT: f"file://{tmp_path}"}
    entries = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in properties.items()
    )
    (tmp_path / "hadoop").mkdir()
    (tmp_path / "hadoop" / "core-site.xml").write_text(f"<configuration>{entries}</configuration>")
    write(tmp_path, kafka, one=JOB.format(topic=name, table="/lake/table"))
    project = Project(tmp_path, kafka, HADOOP_CONF_DIR=str(tmp_path / "hadoop"))

    done = project.run("run", "one")
    assert 2 == done.returncode, done.stderr
    assert "puts paths without a scheme on viewfs://kfetch" in done.stderr
    assert "set spark.hadoop.fs.defaultFS under spark" in done.stderr
    assert [] == [*tmp_path.rglob("_delta_log")]

    text = JOB.format(topic=name, table=f"file:{tmp_path}/lake/table")
    write(tmp_path, kafka, one=f"{text}checkpoint: file:{tmp_path}/ck\n")
    project.kfetch("run", "one")
    assert [*range(20)] == offsets(tmp_path / "lake" / "table")
