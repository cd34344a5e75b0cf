"""The code of README.md and of the pages in docs/ runs, and shows what they say.

``tests/test_docs_code.py`` lists the blocks of Python that run here, and those that do not.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql import DataFrame, Row, SparkSession

from integration.conftest import TopicFactory
from integration.records import producer
from integration.streams import finish
from kfetch_jobs.kafka import Cluster
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.registry.scripted_registry import ScriptedRegistry, framed

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


REPLACED: dict[str, str] = {}
"""Texts of a page in place of which the code has others."""


def code(page: str, kafka: Cluster, topic: str, number: int = 0) -> str:
    """A block of Python of a page, for a topic of this Kafka."""
    text = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[number]
    for before, after in {**REPLACED, "localhost:9092": kafka.bootstrap_servers}.items():
        text = text.replace(before, after)
    return re.sub('"(clicks|orders)"', f'"{topic}"', text)


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


SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
}
NEWER = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "n", "type": "int", "default": 7}]}
JSON = b'{"id": 1, "customer": "Ada", "tags": ["new"], "at": "2024-01-02T03:04:05Z"}'
AVRO = b"\x02\x06Ada"
PROTOBUF = b"\x08\x01\x12\x03Ada"
SHOP = 'syntax = "proto3"; package shop; message Order { int64 id = 1; string customer = 2; }'


def made(
    spark: SparkSession, kafka: Cluster, topic: str, page: str, value: bytes, number: int = 0
) -> dict[str, Any]:
    """Sends a record, runs a block of a page, and returns the names that the block makes."""
    with producer(kafka) as sender:
        sender.send(topic, value)
    text = code(f"docs/how-to/{page}.md", kafka, topic, number)
    names: dict[str, Any] = {"spark": spark}
    exec(text.replace(".load()", '.option("startingOffsets", "earliest").load()'), names)
    return names


def rows(stream: DataFrame, checkpoint: Path) -> list[tuple[Any, ...]]:
    """The rows that are there now."""
    delivered: list[Row] = []
    writer = stream.writeStream.foreachBatch(lambda frame, _: delivered.extend(frame.collect()))
    finish(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())
    return [tuple(row) for row in delivered]


@pytest.mark.parametrize(
    ("page", "number", "value", "name", "expected"),
    [
        ("json", 0, JSON, "orders", [(1, "Ada", 0)]),
        ("json", 1, JSON, "orders", [(1, "Ada", 0, 0)]),
        ("columns", 0, b"v", "clicks", [(b"v", 0, 0)]),
        ("columns", 1, b"v", "clicks", [(b"v", 0, 0)]),
        ("dead-letters", 0, JSON, "good", [(1, "Ada")]),
        # Other decoders are compiled or loaded for these.
        *(
            pytest.param(page, 0, value, "orders", [(1, "Ada", 0)], marks=pytest.mark.long)
            for page, value in (
                ("avro", AVRO),
                ("protobuf", PROTOBUF),
                ("schema-registry", framed(1, AVRO)),
            )
        ),
    ],
)
def test_a_page_about_values_shows_rows(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, page: str, number: int, value: bytes, name: str,
    expected: list[tuple[Any, ...]],
) -> None:  # fmt: skip
    """The code runs as it stands, with the files and the registry that the page names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order-v1.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "order-v2.avsc").write_text(json.dumps(NEWER))
    (tmp_path / "shop.desc").write_bytes(descriptor_set(SHOP))
    orders = topic()
    with ScriptedRegistry() as registry:
        registry.add(SCHEMA, f"{orders}-value")
        monkeypatch.setitem(REPLACED, "https://registry:8081", registry.url)
        # Spark's process for the source has the JVM's working directory.
        monkeypatch.setitem(REPLACED, '"shop.desc"', f'"{tmp_path}/shop.desc"')
        names = made(spark, kafka, orders, page, value, number)

        assert expected == rows(names[name], tmp_path / "checkpoint")


def test_the_page_about_dead_letters_shows_the_reason(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """A record that does not fit arrives with its place, the reason and its bytes."""
    names = made(spark, kafka, topic(), "dead-letters", b'{"id": "one"}')
    ((partition, offset, error, key, value),) = rows(names["bad"], tmp_path / "checkpoint")

    assert (0, 0, None, b'{"id": "one"}') == (partition, offset, key, value)
    assert "field id is no BIGINT" in error


def test_the_page_about_memory_is_a_stream(
    spark: SparkSession, kafka: Cluster, clicks: str, tmp_path: Path
) -> None:
    """The option is part of a query that delivers records."""
    names = made(spark, kafka, clicks, "memory", b"one more")

    assert 11 == len(rows(names["clicks"], tmp_path / "checkpoint"))
