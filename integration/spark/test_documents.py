"""The code of README.md and of the pages in docs/ runs, and shows what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from kfetch_jobs.kafka import Cluster

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.integration


@pytest.fixture
def clicks(kafka: Cluster, topic: TopicFactory) -> str:
    """A topic with ten records in two partitions."""
    name = topic(2)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(name, b"hello %d" % number)
    return name


def code(page: str, kafka: Cluster, topic: str) -> str:
    """The first block of Python of a page, for a topic of this Kafka."""
    found = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found
    text = found[1].replace("localhost:9092", kafka.bootstrap_servers)
    return text.replace('"clicks"', f'"{topic}"')


def test_the_readme_shows_rows(
    spark: SparkSession, kafka: Cluster, clicks: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The ten lines of README.md print the records of a topic."""
    exec(code("README.md", kafka, clicks), {})

    assert [f"hello {n}" for n in range(10)] == sorted(
        re.findall(r"\|(hello \d)\|", capfd.readouterr().out)
    )


def test_the_batch_read_counts_rows(
    spark: SparkSession, kafka: Cluster, clicks: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The code of docs/how-to/batch-reads.md counts the records of each partition."""
    exec(code("docs/how-to/batch-reads.md", kafka, clicks), {"spark": spark})
    counts = re.findall(r"\|\s+\d\|\s+(\d+)\|", capfd.readouterr().out)

    assert 10 == sum(map(int, counts))
