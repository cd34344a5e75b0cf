"""Two supervisors of one project with Spark: the second goes on where the first one was."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from integration.delta_columns import column
from integration.running.commands import Project
from integration.running.project import write
from integration.streams import wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600), pytest.mark.long]

JOB = """\
source: {{cluster: main, subscribe: {topic}, options: {{startingOffsets: earliest}}}}
sink: {{path: {base}/table}}
trigger: {{processingTime: 200ms}}
checkpoint: {base}/checkpoint
"""
EACH = 50


@pytest.fixture
def hosts(tmp_path: Path, kafka: Cluster, topic: Callable[..., str]) -> Iterator[list[Project]]:
    """Two storages of one project, whose supervisors end with the test."""
    name = topic(2)
    made = []
    for host in ("a", "b"):
        directory = tmp_path / host
        directory.mkdir()
        write(directory, kafka, clicks=JOB.format(topic=name, base=tmp_path / "lake"))
        file = directory / "kfetch.yml"
        lake = tmp_path / "lake"
        more = f"sharedDirectories: [{lake}]\nsharedState: {lake}/state\n"
        file.write_text(more + file.read_text())
        made.append(Project(directory, kafka, TOPIC=name))
    yield made
    for host in made[::-1]:
        host.run("down", "--now")


def produce(host: Project, first: int) -> None:
    servers = host.environ["KFETCH_BOOTSTRAP"]
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(first, first + EACH):
            producer.send(host.environ["TOPIC"], b"%d" % number)


def test_the_leader_is_killed(hosts: list[Project], tmp_path: Path) -> None:
    """Its run ends by itself, although its supervisor is dead, because it leads no longer. The
    other host writes each record once."""
    first, second = hosts
    table = tmp_path / "lake" / "table"

    def rows() -> list[str]:
        return sorted(str(one) for one in column(table, "value"))

    produce(first, 0)
    first.kfetch("up", "--detach", "--listen", "none")
    said = second.kfetch("up", "--detach", "--listen", "none")
    assert "leads. This host waits." in said
    wait_until(lambda: table.exists() and len(rows()) == EACH)
    os.kill(
        json.loads(first.run("status", "--json").stdout)["lead"]["leader"]["pid"], signal.SIGKILL
    )
    produce(first, EACH)
    wait_until(lambda: not first.processes())
    produce(first, 2 * EACH)
    wait_until(lambda: len(rows()) == 3 * EACH)
    assert 3 * EACH == len(set(rows()))
    lead = json.loads(second.run("status", "--json").stdout)["lead"]
    assert lead["here"]
    log = (first.directory / "storage" / "clicks" / "run.log").read_text()
    assert "the supervisor of this host does not lead the project any more" in log
