"""Columns by option and by schema: the connector's own columns, selected and cast."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from integration.conftest import TopicFactory
from integration.records import producer
from integration.spark.batch_reads import read
from integration.streams import drain
from kfetch_jobs.kafka import Cluster

pytestmark = pytest.mark.integration

VALUES = [b"plain", "žluť 🐎".encode(), b"", None, b"\xff\xfe", b"cut \xc5", b"a\x00b", b"x" * 9000]
HEADERS: list[list[tuple[str, bytes]]] = [
    [],
    [("a", b"1"), ("b", b"2"), ("a", b"3")],
    [("b", b""), ("a", b"1"), ("b", b"1")],
    [("a", b"\xff")],
]
DDL = "value STRING, partition INT, headers MAP<STRING, BINARY>, offset BIGINT, key BINARY"
OPTION = "value STRING, partition, headers, offset, key"
SEEN = (
    "hex(CAST(value AS BINARY)) AS bytes",
    "length(value) AS letters",
    "upper(value) = 'PLAIN' AS plain",
    "is_valid_utf8(value) AS valid",
    "map_entries(headers) AS entries",
    "hex(key) AS key",
    "partition",
    "offset",
)
"""What Spark makes of the columns, by each byte."""


@pytest.fixture
def last_wins(spark: SparkSession) -> Iterator[None]:
    """Spark's own maps keep the last value of a key, too."""
    name = "spark.sql.mapKeyDedupPolicy"
    spark.conf.set(name, "LAST_WIN")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("connector", "last_wins")
def test_columns_are_the_connectors_own_selected(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """By option, by schema and by both, in streams and in batches, through the agent and without,
    the columns are those of the connector after a select, a cast and map_from_entries."""
    name = topic(2)
    with producer(kafka) as sender:
        for number, value in enumerate(VALUES):
            key = b"k\xff" if value is None else None
            headers = HEADERS[number % len(HEADERS)]
            sender.send(name, value, key=key, partition=number % 2, headers=headers)
    given: dict[str, Any] = {"subscribe": name, "includeHeaders": "true"}
    connectors = read(spark, kafka, "kafka", **given).selectExpr(
        "CAST(value AS STRING) AS value",
        "partition",
        "map_from_entries(headers) AS headers",
        "offset",
        "key",
    )
    expected = seen(connectors)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": name}
    asked = {**servers, "startingOffsets": "earliest", "includeHeaders": "map"}
    inline = {**asked, "kfetch.agent": "inline"}

    assert len(VALUES) == len(expected)
    for reader in (spark.read, spark.readStream):
        option = reader.format("kfetch").options(**asked, columns=OPTION).load()
        schema = reader.format("kfetch").schema(DDL).options(**inline).load()
        both = reader.format("kfetch").schema(DDL).options(**asked, columns=OPTION).load()
        assert connectors.schema.simpleString() == option.schema.simpleString()
        assert connectors.schema.simpleString() == schema.schema.simpleString()
        frames = {"option": option, "schema": schema, "both": both}
        for way, frame in frames.items():
            if frame.isStreaming and way == "both":
                continue  # a query takes a second
            rows = streamed(frame, tmp_path / way) if frame.isStreaming else seen(frame)
            assert expected == rows, way


def seen(frame: DataFrame) -> list[Row]:
    """All rows in a fixed order, as Spark sees them."""
    return sorted(frame.selectExpr(*SEEN).collect(), key=lambda row: (row.partition, row.offset))


def streamed(frame: DataFrame, checkpoint: Path) -> list[Row]:
    """The same of a stream."""
    rows = drain(frame.selectExpr(*SEEN), checkpoint).rows
    return sorted(rows, key=lambda row: (row.partition, row.offset))
