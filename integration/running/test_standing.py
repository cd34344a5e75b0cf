"""``plan``, ``lag`` and ``doctor`` on a real Kafka: what they say is what the topics have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from integration.running.commands import Project
from kfetch_jobs import config
from kfetch_jobs.kafka import Cluster
from kfetch_jobs.run.start_checks import check_origin

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

EACH = 10


@pytest.fixture
def name(topic: Callable[..., str]) -> str:
    return topic(2)


@pytest.fixture
def project(tmp_path: Path, kafka: Cluster, name: str) -> Project:
    """A new project whose job reads the topic."""
    made = Project(tmp_path / "shop", kafka)
    made.directory.mkdir()
    made.kfetch("init", ".")
    file = made.directory / "jobs" / "clicks.yml"
    file.write_text(file.read_text().replace("subscribe: clicks", f"subscribe: {name}"))
    return made


def produce(kafka: Cluster, name: str) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(EACH):
        producer.send(name, b"%d" % number, partition=number % 2).get(30)
    producer.close()


def goes_on(project: Project, name: str, topic_id: str, *positions: int) -> None:
    """The checkpoint of a run that has read so far, under the first leader epoch."""
    partitions = {str(n): [position, 0] for n, position in enumerate(positions)}
    end = {"version": 1, "topics": {name: {"id": topic_id, "partitions": partitions}}}
    checkpoint = project.directory / ".kfetch" / "storage" / "clicks" / "checkpoint"
    for log, text in {"offsets": f"v1\n{{}}\n{json.dumps(end)}", "commits": "v1\n{}"}.items():
        (checkpoint / log).mkdir(parents=True, exist_ok=True)
        (checkpoint / log / "0").write_text(text)


def test_what_is_said_is_what_is_there(project: Project, kafka: Cluster, name: str) -> None:
    """Backlog before the first run and behind a checkpoint; records that were deleted, a topic that
    was created again; brokers that are reached."""
    produce(kafka, name)
    first = plan(project)
    assert (EACH, [5, 5]) == (
        first["behind"],
        [each["log_end"] for each in first["sources"][0]["partitions"]],
    )
    assert "ok    cluster main: 1 broker," in project.kfetch("doctor")

    topic_id = first["sources"][0]["topics"][name]
    goes_on(project, name, topic_id, 2, 5)
    assert 3 == plan(project)["behind"]
    (lag,) = json.loads(project.kfetch("lag", "--partitions", "--json"))
    assert [3, 0] == [each["behind"] for each in lag["partitions"]]
    assert topic_id in project.kfetch("offsets", "show", "clicks", "--json")

    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(name, 0): 4})
    (expired,) = plan(project, code=1)["losses"]
    assert f"{name}-0: offsets 2 to 4 have expired unread" in expired

    goes_on(project, name, "1" * 32, 5, 5)
    assert "was deleted and created again" in plan(project, code=1)["losses"][0]


def test_a_checkpoint_belongs_to_one_cluster(project: Project, kafka: Cluster, name: str) -> None:
    """A run notes the id that the brokers tell, and a command at another cluster is refused. So is
    one of another environment."""
    produce(kafka, name)
    goes_on(project, name, plan(project)["sources"][0]["topics"][name], 2, 5)
    job = config.load(project.directory / "kfetch.yml", project.environ).job("clicks")
    assert check_origin(job)
    note = Path(f"{job.checkpoint}.origin.json")
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        cluster_id = admin.describe_cluster()["cluster_id"]
    assert {"source": cluster_id} == json.loads(note.read_text())["clusters"]
    assert 3 == plan(project)["behind"]

    note.write_text(note.read_text().replace(cluster_id, "another"))
    refused = project.run("plan", "clicks")
    assert 2 == refused.returncode
    assert f"of the Kafka cluster another, and {kafka.bootstrap_servers} is the" in refused.stderr
    (project.directory / "env").mkdir(exist_ok=True)
    (project.directory / "env" / "prod.yml").write_text("concurrency: 2\n")
    refused = project.run("offsets", "reset", "clicks", "--to-latest", "--env", "prod", "--execute")
    assert "has run with no environment, and this is the environment prod" in refused.stderr


def plan(project: Project, code: int = 0) -> Any:
    return json.loads(project.kfetch("plan", "clicks", "--json", code=code))
