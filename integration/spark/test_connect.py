"""Spark's other doors: the examples with Spark Connect and with a declarative pipeline run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kafka import KafkaAdminClient

from integration.records import consumed, numbered, write
from integration.sparks import Feature, needs
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def port() -> Iterator[None]:
    """Spark Connect listens on port 15002, so one test at a time runs on this machine."""
    with open(Path(tempfile.gettempdir(), "kfetch-connect.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def clicks(kafka: Cluster) -> list[str]:
    """Writes three records to the topic ``clicks``, and returns the values of all of them."""
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        if "clicks" not in admin.list_topics():
            admin.create_topics({"clicks": {"num_partitions": 1, "replication_factor": 1}})
    write(kafka, "clicks", numbered("c", 3))
    return sorted(record.value.decode() for record in consumed(kafka, "clicks"))


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that succeeds."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    # The examples run as a user's files, so the tests' directory is not on their path.
    ended = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=environment | {"PATH": f"{BIN}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert 0 == ended.returncode, ended.stdout + ended.stderr
    return ended.stdout


def values(table: Path) -> list[str]:
    return sorted(pq.read_table(table, columns=["value"])["value"].to_pylist())


def test_spark_connect(kafka: Cluster, clicks: list[str], tmp_path: Path) -> None:
    """A client of Spark Connect reads with kfetch."""
    example = ROOT / "examples/connect/clicks.py"
    command = (sys.executable, example, "local[2]", kafka.bootstrap_servers, tmp_path)

    printed = run(*command, cwd=tmp_path)

    assert f"{len(clicks)} clicks" in printed
    assert clicks == values(tmp_path / "clicks")


@needs(Feature.DECLARATIVE_PIPELINES)
def test_declarative_pipeline(kafka: Cluster, clicks: list[str], tmp_path: Path) -> None:
    """A pipeline's streaming table gets each record once, and a view counts them."""
    pipeline = tmp_path / "pipeline"
    shutil.copytree(ROOT / "examples/pipeline", pipeline)
    spec = pipeline / "spark-pipeline.yml"
    text = spec.read_text().replace("localhost:9092", kafka.bootstrap_servers)
    spec.write_text(text.replace("file:///tmp/kfetch-pipeline", f"file://{tmp_path}/storage"))

    run(BIN / "spark-pipelines", "run", cwd=pipeline)

    assert clicks == values(pipeline / "spark-warehouse/clicks")
    counts = pq.read_table(pipeline / "spark-warehouse/clicks_by_partition")
    assert len(clicks) == sum(counts["count"].to_pylist())
