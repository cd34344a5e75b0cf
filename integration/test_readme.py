"""The README's examples run as they stand, but for the broker's address."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from integration.streams import wait_until
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

README = Path(__file__).parent.parent / "README.md"


def test_the_example_reads_what_was_produced(
    kafka: Cluster,
    topic: Callable[..., str],
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A reader who copies the examples gets the topic's records as files, and the lag printed."""
    name = topic(3)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for number in range(100):
        producer.send(name, key=b"k%d" % number, value=b"v%d" % number)
    producer.close()
    example, listener = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    example = example.replace("localhost:9092", kafka.bootstrap_servers)
    example = example.replace('"subscribe", "clicks"', f'"subscribe", "{name}"')
    example = example.replace('"out/', f'"{tmp_path}/out/')  # the JVM has a directory of its own
    names: dict[str, object] = {"spark": spark}
    exec(compile(listener, str(README), "exec"), names)
    exec(compile(example, str(README), "exec"), names)
    printed: list[str] = []
    wait_until(lambda: printed.append(capsys.readouterr().out) or "behind" in "".join(printed))
    found = spark.read.parquet(str(tmp_path / "out" / "clicks")).collect()

    assert {(f"k{n}", f"v{n}") for n in range(100)} == {(row[0], row[1]) for row in found}
    assert 100 == len(found)
    assert ": 0 offsets behind\n" in "".join(printed)
