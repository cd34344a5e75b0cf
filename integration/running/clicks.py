"""Events for a project as ``kfetch init`` makes it."""

from __future__ import annotations

import re

from kafka import KafkaProducer

from integration.running.commands import Project
from kfetch_jobs.kafka import Cluster

EACH = 100


def topic_of(project: Project) -> str:
    """What its job reads."""
    text = (project.directory / "jobs" / "clicks.yml").read_text()
    return re.findall(r"subscribe: (\S+)", text)[0]


def produce(project: Project, kafka: Cluster, first: int) -> None:
    """EACH events, numbered from ``first`` on."""
    name = topic_of(project)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(first, first + EACH):
        producer.send(name, b'{"id": %d, "page": "/", "action": "view"}' % number)
    producer.close()
