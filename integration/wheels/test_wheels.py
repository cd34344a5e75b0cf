"""Both wheels work in an empty environment, without the source tree.

Beside each project are a user's own ``jobs/``, ``jobs.py``, ``conf/`` and ``spark_source/``. All
tests share the environment, whose installation takes long, so they stand in one file.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from integration.delta_columns import column
from integration.running.clicks import EACH, produce
from integration.running.commands import Project
from integration.running.prometheus import program, scraping
from integration.wheels.environment import ARCHIVED_SPARK, ROOT, Environment, install, uv
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.ready import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

STOP = "\nspark.stop()  # calls all its listeners before\n"


def blocks(page: str) -> list[str]:
    """The blocks of Python in a page of docs/."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_an_sdist_builds_the_same_wheel(wheels: Path, tmp_path: Path) -> None:
    """Each sdist, unpacked elsewhere, builds a wheel with the same files, licences included."""
    for sdist in wheels.glob("*.tar.gz"):
        with tarfile.open(sdist) as archive:
            archive.extractall(tmp_path, filter="data")
        source = tmp_path / sdist.name.removesuffix(".tar.gz")
        uv("build", "--quiet", "--wheel", "--out-dir", str(tmp_path / "again"), str(source))
    built = {wheel.name: contents(wheel) for wheel in wheels.glob("*.whl")}

    assert 2 == len(built)
    assert built == {wheel.name: contents(wheel) for wheel in (tmp_path / "again").glob("*.whl")}
    for files in built.values():
        assert any(name.endswith("licenses/LICENSE") for name in files)
        assert any(name.endswith("py.typed") for name in files)


def test_the_wheels_add_no_other_modules(environment: Environment, tmp_path: Path) -> None:
    """The wheels install ``kfetch`` and ``kfetch_jobs``, but not ``jobs`` or ``spark_source``."""
    packages = environment.packages()
    size = environment.megabytes()
    print(f"installed in {environment.install_s:.1f} s, {size:.0f} MB: {' '.join(packages)}")
    for name in ("jobs", "spark_source", "conf", "tests", "integration"):
        environment.run("python", "-c", f"import {name}", cwd=tmp_path, code=1)
    environment.run("python", "-c", "import kfetch, kfetch_jobs, pyspark_kfetch", cwd=tmp_path)

    assert {"kfetch", "kfetch-jobs"} <= {line.partition("==")[0] for line in packages}


def test_the_source_alone(wheels: Path, tmp_path: Path) -> None:
    """Without kfetch-jobs and Spark, the package can be imported and the command has its verbs."""
    alone = install(tmp_path / "venv", wheels, "kfetch")
    code = "import kfetch, sys; print(kfetch.__version__, kfetch.errors.LogTruncated.__name__)"
    version, name = alone.run("python", "-c", code, cwd=tmp_path).split()
    usage = alone.run("kfetch", "--help", cwd=tmp_path)
    page = alone.run("kfetch", "explain", "LOG_TRUNCATED", cwd=tmp_path)

    assert (version, "LogTruncated") == (
        alone.run("kfetch", "--version", cwd=tmp_path).split()[1],
        name,
    )
    assert "## What to do" in page
    assert {"agents", "warm", "options", "check", "explain"} <= {
        *re.findall(r"^  (\w+) ", usage, re.MULTILINE)
    }
    assert "pyspark" not in " ".join(alone.packages())


def test_the_first_stream_needs_no_activation(
    environment: Environment, kafka: Cluster, topic: Callable[..., str], user_directory: Path
) -> None:
    """``path/to/venv/bin/python script.py`` of docs/start/ shows the rows, and prints the lag."""
    name = topic(2)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(name, key=b"k%d" % number, value=b"hello %d" % number)
    (query,) = blocks("start/first-stream.md")
    (listener,) = [block for block in blocks("how-to/monitor.md") if "LagListener" in block]
    query = query.replace("localhost:9092", kafka.bootstrap_servers)
    query = query.replace('"subscribe", "clicks"', f'"subscribe", "{name}"')
    script = query.replace("query = (", f"{listener}\nquery = (") + STOP
    (user_directory / "script.py").write_text(script)
    printed = environment.run("python", "script.py", cwd=user_directory)

    assert [f"hello {n}" for n in range(10)] == sorted(re.findall(r"hello \d", printed))
    assert ": 0 offsets behind\n" in printed


def test_demo_in_an_empty_directory(environment: Environment, tmp_path: Path) -> None:
    """``kfetch demo`` brings its own job: nothing is lost and nothing is twice. It leaves nothing
    but its picture."""
    empty, temporary = tmp_path / "empty", tmp_path / "temporary"
    for directory in (empty, temporary):
        directory.mkdir()
    words = ("--seconds", "4", "--rate", "2000", "--json")
    variables = {"TMPDIR": str(temporary), **ARCHIVED_SPARK}
    printed = environment.run("kfetch", "demo", *words, cwd=empty, **variables)
    summary = json.loads(printed)

    assert (8_000, 8_000) == (summary["produced"], summary["in_delta"])
    assert (0, 0) == (summary["lost"], summary["duplicated"])
    assert summary["killed_processes"] >= 3
    # One session at least in each of the job's two lives.
    assert summary["sessions_opened"] >= 2
    assert summary["records"] >= summary["in_delta"]
    assert [] == [path.name for path in temporary.glob("kfetch-demo-*")]


SECRET = "hunter2-of-the-shop"
INDISCREET = """\
import os
import sys

from pyspark.sql import functions as f


@f.udf("bigint")
def told(number):
    print("a worker says", os.environ["SHOP_SECRET"], file=sys.stderr, flush=True)
    return number


def clicks(source):
    print("the driver says", os.environ["SHOP_SECRET"])
    return source.select(told("value.id").alias("id"), "timestamp", "partition", "offset")
"""


def tell_secrets(project: Project) -> None:
    """From now on the job's code tells what the project's file says is a secret."""
    (project.directory / "jobs" / "shapes.py").write_text(INDISCREET)
    file = project.directory / "kfetch.yml"
    setting = "spark:\n  spark.hadoop.shop.password: ${env:SHOP_SECRET}\n"
    file.write_text(file.read_text().replace("spark:\n", setting))
    project.environ["SHOP_SECRET"] = SECRET


def check_discreet(project: Project) -> None:
    """Logs have what the code has said, without the secret, for their owner alone."""
    storage = project.directory / ".kfetch" / "storage"
    logs = storage / "clicks"
    assert "the driver says ${env:SHOP_SECRET}" in (logs / "run.log").read_text()
    assert "a worker says ${env:SHOP_SECRET}" in (logs / "spark.log").read_text()
    private = [*storage.glob("*/*.log"), *storage.glob(".supervisor/kfetch.db*")]
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in private}
    for file in storage.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def check_metrics(url: str) -> None:
    """They tell what the second supervisor has seen: its job was killed once, and read on; and
    Prometheus' own linter has nothing to say of them."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    told = {
        (sample.name, *sorted(set(sample.labels.values()) - {"clicks"})): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    lint = [program("promtool"), "check", "metrics"]
    linted = subprocess.run(lint, input=text, capture_output=True, text=True, timeout=60)
    assert (0, "") == (linted.returncode, linted.stderr)
    # What the adopted job read before this supervisor came does not count.
    assert EACH <= told["kfetch_job_rows_total",] <= 2 * EACH
    assert 1 == told["kfetch_job_runs_ended_total", "killed"]
    assert 1 == told["kfetch_job_runs_started_total",]
    assert told["kfetch_job_batch_phase_seconds_total", "addBatch"] > 0
    assert told["kfetch_job_lag_offsets",] == told["kfetch_job_lag_seconds",] == 0
    assert told["kfetch_job_fetch_records_total", "executor"] >= EACH
    assert told["kfetch_job_fetch_session_events_total", "executor", "opened"] >= 1
    assert 1 == told["kfetch_job_agents",]
    assert told["kfetch_job_agent_memory_limit_bytes",] > 0
    assert told["kfetch_job_healthy",] == told["kfetch_job_state", "running"] == 1


def test_a_project_survives_kills(project: Project, kafka: Cluster) -> None:
    """A new project runs at once, with a transform in the user's package ``jobs``.

    The supervisor is killed, and the next one adopts the job. The job is killed and started again.
    All records are in the table once. History and metrics are true, and Prometheus takes them. No
    log has a secret, and no process is left.
    """
    tell_secrets(project)
    assert "no mistakes" in project.kfetch("validate")
    produce(project, kafka, 0)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    assert f"page: http://{listen}/\n" in project.kfetch("up", "--detach", "--listen", listen)
    first = project.until(lambda job: job["lag"] == 0 and job["batch"] is not None)

    os.kill(project.status()["supervisor"], signal.SIGKILL)
    produce(project, kafka, EACH)
    assert "no supervisor runs" in project.kfetch("status", code=3)
    project.kfetch("up", "--detach", "--listen", listen)
    adopted = project.until(lambda job: job["batch"] > first["batch"] and job["lag"] == 0)
    assert (first["pid"], "running") == (adopted["pid"], adopted["phase"])

    os.kill(adopted["pid"], signal.SIGKILL)
    produce(project, kafka, 2 * EACH)
    failed = project.until(lambda job: job["failures"] == 1)
    assert failed["phase"] in ("backoff", "running")
    project.until(lambda job: job["phase"] == "running" and job["batch"] is not None)
    project.until(lambda job: job["lag"] == 0)
    check_metrics(f"http://{listen}/metrics")
    with scraping(project.directory.parent / "prometheus", listen) as prometheus:
        prometheus.check()
    assert "clicks: stopped" in project.kfetch("stop", "clicks")
    project.kfetch("down")
    (lag,) = json.loads(project.kfetch("lag", "--json"))
    assert (0, True, lag["planned"]) == (lag["behind"], lag["fits"], lag["committed"])

    assert [] == project.processes()
    check_discreet(project)
    assert project.status(code=3)["supervisor"] is None
    kinds = [run["kind"] for run in json.loads(project.kfetch("history", "--json"))]
    assert ["stopped", "killed"] == kinds
    table = project.directory / ".kfetch" / "storage" / "tables" / "clicks"
    assert list(range(3 * EACH)) == sorted(column(table, "id"))
