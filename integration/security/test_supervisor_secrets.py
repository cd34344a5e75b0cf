"""Secrets under a supervisor: page, metrics, database with its journal, status, logs, processes.

One job reads a secured topic, and another one has a wrong password. Spark has a secret setting, and
the page and the metrics have tokens.
"""

from __future__ import annotations

import json
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from integration.running.commands import Project
from integration.secured import SecuredCluster
from integration.security.search import (
    add_cluster,
    add_job,
    exposed,
    holders,
    keep,
    named_in,
    readable_by_others,
    secrets_of,
    write_project,
)
from integration.security.test_refusals import WRONG
from integration.streams import wait_until
from kfetch_jobs.kafka.ready import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]

TOKEN, METRICS_TOKEN = "a-token-of-the-page-1", "a-token-of-metrics-1"
SPARK_KEY = "a-key-of-an-object-store"
SPARK = "  spark.hadoop.fs.s3a.secret.key: ${file:spark-key}\n"
PAGES = (
    "/",
    *(f"/jobs/{job}{part}" for job in ("clicks", "wrong") for part in ("", "/log", "/curves")),
    "/jobs/clicks/partitions",
    "/metrics",
    "/login",
)
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("history", "--json"),
    ("logs",),
    ("logs", "clicks"),
    ("logs", "clicks", "--spark"),
    ("logs", "wrong"),
    ("lag", "clicks"),
    ("agents", "--json"),
    ("validate",),
)


def test_a_supervised_project_shows_no_secret(
    secured: SecuredCluster, secret_topic: str, tmp_path: Path
) -> None:
    """A search while both jobs are supervised, and another one behind ``kfetch down``."""
    secrets = secrets_of(secured) | {"Spark's key": SPARK_KEY}
    tokens = {"token": TOKEN, "token of metrics": METRICS_TOKEN}
    kept = {"password": "password", "wrong": "wrong password", "spark-key": "Spark's key"}
    with supervised(tmp_path, secured, secret_topic) as (project, address):
        shown = [fetch(f"http://{address}{path}") for path in PAGES]
        refused = [fetch(f"http://{address}{path}", "not-the-token-1") for path in PAGES]
        said = [project.run(*words) for words in COMMANDS]
        assert any("refuses the log-in of user reader" in text for text in shown)
        assert 'kfetch_job_rows_total{job_name="clicks"}' in shown[PAGES.index("/metrics")]
        texts = [*shown, *refused, *(done.stdout + done.stderr for done in said)]
        assert [] == named_in("\n".join(texts).encode(), secrets | tokens)

        supervisor, family = processes_of(project)
        assert [] == exposed([supervisor, *family], secrets)
        assert [] == exposed(family, tokens)
        assert [*tmp_path.rglob("kfetch.db-wal")]
        assert kept == holders(tmp_path, secrets | tokens)

    assert [*(tmp_path / "events").iterdir()]
    assert [*(tmp_path / "runtime").rglob("*.log")]
    assert kept == holders(tmp_path, secrets | tokens)
    written = [path for path in tmp_path.glob("storage/*/*") if ".log" in path.name]
    database = [*tmp_path.glob("storage/.supervisor/kfetch.db*")]
    assert [] == readable_by_others([*(tmp_path / name for name in kept), *written, *database])
    assert len(written) >= 5  # two of each job, and the supervisor's
    assert database


@contextmanager
def supervised(
    directory: Path, cluster: SecuredCluster, topic: str
) -> Iterator[tuple[Project, str]]:
    """A supervisor whose job ``clicks`` has read the topic, and whose job ``wrong`` has failed.

    Yields the project, and the address of its page.
    """
    (directory / "runtime").mkdir(mode=0o700)
    with tempfile.TemporaryDirectory() as short:  # a socket's path has 107 bytes at most
        Path(short, "runtime").symlink_to(directory / "runtime")
        variables = {"XDG_RUNTIME_DIR": f"{short}/runtime", "KFETCH_LOG": "DEBUG"}
        project = Project(directory, cluster, **variables)
        write_project(project, cluster, spark=SPARK)
        add_cluster(project, cluster, "other", "reader", "wrong")
        add_job(project, "clicks", topic, trigger="continuous")
        add_job(project, "wrong", topic, cluster="other", trigger="continuous")
        keep(directory / "wrong", WRONG)
        keep(directory / "spark-key", SPARK_KEY)
        address = f"127.0.0.1:{free_ports(1)[0]}"
        tokens = {"KFETCH_TOKEN": TOKEN, "KFETCH_METRICS_TOKEN": METRICS_TOKEN}
        starter = Project(directory, cluster, **variables, **tokens)
        starter.kfetch("up", "--detach", "--listen", address)
        try:
            wait_until(lambda: settled(project.jobs()), what="both jobs", pause_s=1)
            yield project, address
        finally:
            project.kfetch("down", "--now")


def settled(jobs: Mapping[str, dict[str, object]]) -> bool:
    """Whether one job has read the whole topic, and the other one has failed."""
    return jobs["clicks"]["lag"] == 0 and bool(jobs["wrong"]["error"])


def fetch(url: str, token: str = TOKEN) -> str:
    """The answer of the page, with its headers; also one of an error."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    opener = urllib.request.build_opener(AnyStatus)
    with opener.open(request, timeout=30) as answer:
        return f"{answer.status}\n{answer.headers}\n{answer.read().decode()}"


class AnyStatus(urllib.request.HTTPErrorProcessor):
    """Errors are answers like all others, and redirections stay what they are."""

    def http_response(self, request: object, response: object) -> object:
        """Returns the response as it is."""
        return response


def processes_of(project: Project) -> tuple[psutil.Process, list[psutil.Process]]:
    """The supervisor, and the processes of the runs: Python, the JVM, workers, the agent."""
    supervisor = psutil.Process(json.loads(project.run("status", "--json").stdout)["supervisor"])
    family = {*supervisor.children(recursive=True), *project.processes()} - {supervisor}
    assert len(family) >= 4
    return supervisor, [*family]
