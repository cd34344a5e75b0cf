"""A replay of a topic that was deleted and created again, on a real Kafka, Spark and Delta.

The filter drops half of the records. So the rows of both topics are no more than the offsets, and
no count shows that a replay would delete rows of the earlier topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError

from integration.checkpoints import batches
from integration.delta_columns import column
from integration.running.commands import Project
from integration.running.project import write
from integration.streams import PATIENCE_S
from kfetch_jobs.checkpoints import backup
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900), pytest.mark.long]

EACH = 20
JOB = """\
source:
  cluster: main
  subscribe: {topic}
  options: {{startingOffsets: earliest, maxOffsetsPerTrigger: 4, failOnDataLoss: false}}
transform:
  sql: SELECT CAST(value AS STRING) AS name, partition, offset FROM source WHERE offset % 2 = 0
sink: {{path: table}}
trigger: availableNow
spark: {{spark.sql.streaming.minBatchesToRetain: 2}}
"""


def produce(kafka: Cluster, topic: str, word: str) -> list[str]:
    """Produce records. Returns those of which the table gets a row."""
    names = [f"{word} {number}" for number in range(EACH)]
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for name in names:
        producer.send(topic, name.encode()).get(30)
    producer.close()
    return sorted(names[::2])


def recreate(kafka: Cluster, topic: str) -> None:
    """Delete a topic, and create another one of its name."""
    deadline = time.monotonic() + PATIENCE_S
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics([topic])
        while True:
            try:
                admin.create_topics([NewTopic(topic, 1, 1)])
                return
            except TopicAlreadyExistsError:  # the deletion goes on
                assert time.monotonic() < deadline


def test_rows_of_an_earlier_topic_stay(
    tmp_path: Path, kafka: Cluster, topic: Callable[..., str]
) -> None:
    """Neither a replay nor a killed one nor a run of the new topic loses a row."""
    name = topic(1)
    write(tmp_path, kafka, one=JOB.format(topic=name))
    project, table = Project(tmp_path, kafka), tmp_path / "table"
    checkpoint = tmp_path / "storage" / "one" / "checkpoint"
    first = produce(kafka, name, "first")

    def rows() -> list[object]:
        return sorted(column(table, "name"), key=str)

    def commits() -> int:
        return len([*table.glob("_delta_log/*.json")])

    project.kfetch("run", "one")
    assert first == rows()
    before = commits()
    replay = ("offsets", "replay", "one", "--to-earliest", "--execute")
    project.kill_when(lambda: commits() > before, *replay)
    assert [] == rows()

    recreate(kafka, name)
    second = produce(kafka, name, "second")
    refused = project.run("run", "one")
    assert refused.returncode in (1, 2), refused.stderr
    assert "kfetch offsets undo one --execute" in " ".join(refused.stderr.split())
    assert [] == rows()
    project.kfetch("offsets", "undo", "one", "--execute")
    assert first == rows()

    before = commits()
    project.kill_when(lambda: commits() > before, "run", "one")
    project.kfetch("run", "one")
    both = sorted([*first, *second])
    assert both == rows()
    for move in backup.all_backups(checkpoint):
        assert backup.Stage.UNDONE is move.stage
    assert 4 > len(batches(checkpoint, "offsets"))

    said = project.run(*replay)
    assert 1 == said.returncode, said.stdout
    assert f"topic {name} was deleted and created again, and the job has read" in said.stderr
    assert both == rows()


def test_the_note_alone_tells(tmp_path: Path, kafka: Cluster, topic: Callable[..., str]) -> None:
    """Spark has removed all micro-batches of the earlier topic, and there is no backup."""
    name = topic(1)
    write(tmp_path, kafka, one=JOB.format(topic=name))
    project, table = Project(tmp_path, kafka), tmp_path / "table"
    both = produce(kafka, name, "first")
    project.kfetch("run", "one")
    recreate(kafka, name)
    both = sorted([*both, *produce(kafka, name, "second")])
    project.kfetch("run", "one")
    assert both == sorted(column(table, "name"), key=str)

    said = project.run("offsets", "replay", "one", "--to-earliest", "--execute")
    assert 1 == said.returncode, said.stdout
    assert "a replay would delete its rows, and can't write them again" in said.stderr
    assert both == sorted(column(table, "name"), key=str)
