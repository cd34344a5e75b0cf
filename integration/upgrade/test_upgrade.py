"""Files that commit 61ec925 wrote: a real broker and a real Spark go on with them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.running.commands import Project
from integration.streams import drain, kfetch
from kfetch_jobs.checkpoints import checkpoint
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.ready import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

UPGRADE = Path(__file__).parents[2] / "tests" / "vectors" / "upgrade"
COUNT = 120
"""Records of the topic. Record n is in partition n % 3, at offset n // 3."""
TIME_MS = 1_700_000_000_000
PATIENCE_S = 500
"""For a supervisor, a pause of five seconds, and a Spark of its own, on a busy machine."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Cluster]:
    """The old broker, started over a copy of its data: topic ids and records are the same."""
    directory = tmp_path / "broker"
    shutil.copytree(UPGRADE / "broker", directory)
    with Cluster.start(directory, port=free_ports(1)[0]) as cluster:
        yield cluster


def test_a_query_goes_on(broker: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """A query on the old checkpoint repeats the micro-batch without a commit with the same records,
    then reads all later records, each of them once."""
    shutil.copytree(UPGRADE / "query" / "checkpoint", tmp_path / "checkpoint")
    frame = kfetch(
        spark, broker, subscribe="clicks", startingOffsets="earliest", maxOffsetsPerTrigger=24
    )
    delivered = drain(frame, tmp_path / "checkpoint")

    found = [sorted(json.loads(row.value)["id"] for row in rows) for rows in delivered.batches]
    assert list(range(60, 84)) == found[0]
    assert list(range(60, COUNT)) == sorted(number for numbers in found for number in numbers)
    for row in delivered.rows:
        number = json.loads(row.value)["id"]
        assert (number % 3, number // 3) == (row.partition, row.offset)
        assert b"user-%d" % (number % 5) == row.key
        assert TIME_MS + number == round(row.timestamp.timestamp() * 1000)


@pytest.mark.long  # the unit tests of the database and the checkpoint run always
def test_a_project_goes_on(broker: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    """``kfetch up`` takes over the old project: the table gets each remaining record once, and the
    history goes on."""
    shutil.copytree(UPGRADE / "project", tmp_path / "shop")
    project = Project(tmp_path / "shop", broker, KFETCH_STORAGE="storage")
    storage = project.directory / "storage"
    before = history(project)
    project.kfetch("up", "--detach", "--listen", "none")
    try:
        deadline = time.monotonic() + PATIENCE_S
        while read_offsets(storage) < COUNT:
            assert time.monotonic() < deadline, (project.jobs(), project.kfetch("logs", "clicks"))
            time.sleep(0.5)
        phases = {name: job["phase"] for name, job in project.jobs().items()}
    finally:
        project.kfetch("down")

    assert {"broken": "failed", "clicks": "running", "daily": "paused"} == phases
    table = spark.read.format("delta").load(str(storage / "tables" / "clicks"))
    assert list(range(COUNT)) == sorted(row.id for row in table.select("id").collect())
    *new, taken_over = history(project)[: -len(before) + 1]
    assert before[1:] == history(project)[-len(before) + 1 :]
    assert ("clicks", None, "killed") == (before[0]["job"], before[0]["kind"], taken_over["kind"])
    assert ["stopped"] == [run["kind"] for run in new]
    assert 30 == sum(run["rows"] for run in new)


def history(project: Project) -> list[dict[str, object]]:
    """All runs, the newest first."""
    return list(json.loads(project.kfetch("history", "-n", "1000", "--json")))


def read_offsets(storage: Path) -> int:
    """The committed offsets of the job, added up; 0 while a micro-batch runs."""
    found = checkpoint.read_checkpoint(storage / "clicks" / "checkpoint")
    end = None if found.pending else found.end(0)
    return sum(position.offset for position in end.positions.values()) if end else 0
