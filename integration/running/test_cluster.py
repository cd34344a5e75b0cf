"""The examples on a standalone Spark cluster without kfetch: it comes in an archive."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from integration.streams import wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PACKAGE = "environment/lib/python3*/site-packages/kfetch"
PLAIN = {
    name: os.environ[name] for name in ("HOME", "JAVA_HOME", "TMPDIR") if name in os.environ
} | {"PATH": "/usr/local/bin:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"}
"""The environment of the cluster's machines: nothing of this Python's."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As examples/README.md makes it, but little compressed, which would take half a minute."""
    directory = tmp_path_factory.mktemp("archive")
    readme = (EXAMPLES / "README.md").read_text()
    commands = re.search(r"    uv venv .*\n    uv pip .*\n    .*tar -czf .*\n", readme)
    assert commands
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    shell = commands[0].replace("uv ", f"{uv} ").replace("./spark_source", f"{ROOT}/spark_source")
    shell = shell.replace("tar -czf", "tar -I 'gzip -1' -cf")
    subprocess.run(["bash", "-ec", shell], cwd=directory, check=True, timeout=120)
    return directory / "environment.tar.gz"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers of a core each, on 127.0.0.1."""
    with ExitStack() as running:
        package = "org.apache.spark.deploy"
        words = [f"{package}.master.Master", "--port", "0", "--webui-port", "0"]
        log = running.enter_context(daemon(tmp_path / "master.log", *words))
        address = told(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for name in ("one", "two"):
            words = [f"{package}.worker.Worker", "--port", "0", "--webui-port", "0"]
            words += ["--cores", "1", "--memory", "2g", "--work-dir", str(tmp_path / name), address]
            log = running.enter_context(daemon(tmp_path / f"{name}.log", *words))
            told(log, r"(Successfully registered with master)")
        yield address


@contextmanager
def daemon(log: Path, *words: str) -> Iterator[Path]:
    """One of Spark's; its log."""
    environ = PLAIN | {"SPARK_DAEMON_MEMORY": "256m"}
    with log.open("w") as file:
        process = subprocess.Popen(
            [CLASS, *words, "--host", "127.0.0.1"], env=environ, stdout=file, stderr=file
        )
    try:
        yield log
    finally:
        process.terminate()
        process.wait(30)


def told(log: Path, pattern: str) -> str:
    """What a log says, once it does."""
    wait_until(lambda: re.search(pattern, log.read_text()))
    found = re.search(pattern, log.read_text())
    assert found
    return found[1]


def test_jobs_on_a_cluster(
    kafka_cluster: Callable[..., Cluster],
    master: str,
    archive: Path,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """An hourly job, and a join whose state is shuffled between executors: both run with the
    archive's Python on both workers, and their tables are right."""
    kafka = kafka_cluster(nodes=1)
    runpy.run_path(str(EXAMPLES / "produce.py"))["main"](kafka.bootstrap_servers, "30")
    shop = tmp_path / "shop"
    shutil.copytree(EXAMPLES, shop)
    sales = shop / "jobs" / "sales.yml"
    sales.write_text(sales.read_text().replace("processingTime: 10 seconds", "availableNow: true"))
    environ = os.environ | {
        "KFETCH_BOOTSTRAP": kafka.bootstrap_servers,
        "SPARK_MASTER": master,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "KFETCH_ENVIRONMENT": str(archive),
        "KFETCH_STORAGE": str(tmp_path / "storage"),
    }
    environ.pop("PYTHONPATH", None)  # executors are given it, and would find this tree by it
    for job in ("revenue", "sales"):
        kfetch = [sys.executable, "-P", "-m", "kfetch", "run", job, "--env", "cluster"]
        done = subprocess.run(
            kfetch, cwd=shop, env=environ, capture_output=True, text=True, timeout=300
        )
        assert 0 == done.returncode, done.stdout + done.stderr

    tables = tmp_path / "storage" / "tables"
    amounts = {
        row.amount for row in spark.read.format("delta").load(str(tables / "revenue")).collect()
    }
    assert {Decimal(f"{n}.50") for n in range(4, 30, 5)} == amounts
    joined = spark.read.format("delta").load(str(tables / "sales")).collect()
    # Each order comes with its user's clicks so far: every third one.
    assert sum(n // 3 + 1 for n in range(4, 30, 5)) == len(joined) == len({*map(str, joined)})
    for worker in ("one", "two"):
        # Compiled where it was imported from.
        assert [*(tmp_path / worker).glob(f"app-*/*/{PACKAGE}/spark/__pycache__/worker.*.pyc")]
