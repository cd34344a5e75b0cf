"""A micro-batch that takes long: what is said of the job meanwhile."""

from __future__ import annotations

import time
from urllib.request import urlopen

import pytest

from integration.running.clicks import EACH, produce
from integration.running.commands import Project
from integration.streams import PATIENCE_S
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.ready import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(300)]

SLOW = """\
import time
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

@f.udf("BIGINT")
def slowly(number: int) -> int:
    time.sleep(0.2)
    return number

def clicks(source: DataFrame) -> DataFrame:
    return source.select(slowly("value.id").alias("id"))
"""


def _metrics(address: str) -> str:
    with urlopen(f"http://{address}/metrics") as reply:
        return str(reply.read(), "utf-8")


def test_records_that_come_meanwhile(supervised_project: Project, kafka: Cluster) -> None:
    """A UDF sleeps for some 10 s in a micro-batch. Records that are sent meanwhile count at once,
    and the job's limit holds. After the next micro-batch, nothing is behind."""
    project = supervised_project
    (project.directory / "transforms.py").write_text(SLOW)
    file = project.directory / "jobs" / "clicks.yml"
    file.write_text(file.read_text().replace("lagSeconds: 300", f"lagRecords: {2 * EACH}"))
    produce(project, kafka, 0)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    project.kfetch("up", "--detach", "--listen", address)
    running = project.until(lambda job: job["lag"])
    assert (EACH, None, []) == (running["lag"], running["batch"], running["unhealthy"])

    for more in (1, 2):
        produce(project, kafka, more * EACH)
    behind = project.until(lambda job: job["lag"] == 3 * EACH)
    assert behind["batch"] is None
    assert ["300 records behind, more than 200"] == behind["unhealthy"]
    assert behind["lag_s"] > 0
    deadline = time.monotonic() + PATIENCE_S
    while 'kfetch_job_lag_offsets{job_name="clicks"} 300.0' not in _metrics(address):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert project.job()["batch"] is None

    last = project.until(lambda job: job["batch"] == 0)
    assert 2 * EACH == last["lag"]
    assert 0 == project.until(lambda job: job["batch"] == 1)["lag"]
