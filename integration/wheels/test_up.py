"""``kfetch init`` and ``kfetch up`` from the wheels: real Kafka, Spark and Delta, and kills."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from integration.delta_columns import column
from integration.running.clicks import EACH, produce
from integration.running.commands import Project
from integration.running.prometheus import program, scraping
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.ready import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


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
