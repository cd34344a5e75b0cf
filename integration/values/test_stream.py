"""``valueFormat=json`` in a real Spark: the agent decodes, and the rows are those of from_json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from integration.conftest import TopicFactory
from integration.records import producer
from integration.streams import drain, finish, kfetch
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

_SCHEMA = "id BIGINT, name STRING, tags ARRAY<STRING>, m MAP<STRING, INT>, n STRUCT<a: INT>"
_GOOD = [b'{"id":%d,"name":"n%d","tags":["a",null],"m":{"k":1},"n":{"a":%d}}' % (i, i, i)
         for i in range(500)]  # fmt: skip
_ODD = [b'{"id":"x","n":{"a":1.5}}', b"{'id':7}", b"no json", b"", None, b'{"id":1', b'{"id":1}x']


def _send(cluster: Cluster, topic: str, values: list[Any]) -> None:
    with producer(cluster, linger_ms=5) as sender:
        for value in values:
            sender.send(topic, value, key=b"k", partition=0)


def _plain(frame: DataFrame, checkpoint: Path) -> list[Any]:
    rows = drain(frame, checkpoint).rows
    return [(row.offset, row.value and row.value.asDict(True)) for row in sorted(rows, key=_offset)]


def _offset(row: Any) -> int:
    offset: int = row.offset
    return offset


@pytest.mark.parametrize("place", ["process", "inline"])
def test_the_rows_are_those_of_from_json(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, place: str
) -> None:
    """Good, odd, corrupt, empty and null values give the same structs, in the agent and inline."""
    name, schema = topic(), f"{_SCHEMA}, _corrupt_record STRING"
    _send(kafka, name, _GOOD + _ODD + _GOOD)
    shared = {"subscribe": name, "startingOffsets": "earliest", "kfetch.agent": place}
    ours = kfetch(spark, kafka, **shared, valueFormat="json", valueSchema=schema)
    parsed = F.from_json(F.col("value").cast("string"), schema).alias("value")

    expected = _plain(
        kfetch(spark, kafka, **shared).select("partition", "offset", parsed), tmp_path / "spark"
    )

    assert expected == _plain(ours.select("partition", "offset", "value"), tmp_path / "kfetch")


def test_columns_and_a_schema_work_with_structs(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """The option columns keeps its order beside a typed value, and batch reads have it, too."""
    name = topic()
    _send(kafka, name, _GOOD)
    options = {"subscribe": name, "startingOffsets": "earliest", "columns": "value,offset",
               "valueFormat": "json", "valueSchema": _SCHEMA}  # fmt: skip
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    batch = spark.read.format("kfetch").options(**servers, **options).load()

    rows = batch.where("value.id >= 498").collect()

    assert ["value", "offset"] == batch.columns
    assert [("n498", 498), ("n499", 499)] == sorted((row.value.name, row.offset) for row in rows)


@pytest.mark.parametrize("columns", ["value", "value,topic,partition,offset"])
def test_failfast_names_the_record(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, columns: str
) -> None:
    """valueMode=FAILFAST fails the query with the topic, the partition, the offset and the byte."""
    name = topic()
    _send(kafka, name, [*_GOOD, b'{"id":1,"n":{"a":"x"}}'])
    frame = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", columns=columns,
        valueFormat="json", valueSchema=_SCHEMA, valueMode="FAILFAST",
    )  # fmt: skip
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="MALFORMED_VALUE") as failure:
        finish(query)

    sentence = f"the record at offset 500 of {name}-0 does not fit valueSchema: field a is no INT"
    assert sentence in str(failure.value)
