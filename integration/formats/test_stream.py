"""Typed keys and values in a real Spark: the agent decodes, and the rows are those of from_json."""

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

    sentence = f"the record at offset 500 of {name}-0 does not fit valueSchema: field n.a is no INT"
    assert sentence in str(failure.value)


_KEYS = "k INT, at TIMESTAMP, _corrupt_record STRING"
_ODD_KEYS = [b'{"k":7,"at":"2024-07-01T01:02:03"}', None, b"", b'{"k":"x"}', b"\xff", b'{"k":1']
_TEXTS = [b"plain", b"x\xffy", "größe 😀".encode(), b"", None, b"\xc3"]


def _both(
    spark: SparkSession, cluster: Cluster, name: str, form: str, **options: str
) -> tuple[DataFrame, DataFrame]:
    """What kfetch delivers with the options, and without: in a stream or in a batch read."""
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    shared = {"subscribe": name, "startingOffsets": "earliest", "includeHeaders": "map"}
    reader = (spark.readStream if form == "stream" else spark.read).format("kfetch")
    raw = reader.options(**servers, **shared).load()
    reader = (spark.readStream if form == "stream" else spark.read).format("kfetch")
    return reader.options(**servers, **shared, **options).load(), raw


def _all_rows(frame: DataFrame, form: str, checkpoint: Path) -> list[Any]:
    rows = drain(frame, checkpoint).rows if form == "stream" else frame.collect()
    return [row.asDict(True) for row in sorted(rows, key=_offset)]


@pytest.mark.parametrize("form", ["stream", "batch"])
def test_keys_are_those_of_from_json_and_strings_those_of_cast(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, form: str
) -> None:
    """Null, empty, odd and damaged keys are Spark's structs. Text of any bytes is Spark's cast."""
    name = topic()
    with producer(kafka, linger_ms=5) as sender:
        for key, value in zip(_ODD_KEYS, _TEXTS, strict=True):
            sender.send(name, value, key=key, partition=0, headers=[("h", b"1")])
    zone = spark.conf.get("spark.sql.session.timeZone")
    given = {"keyFormat": "json", "keySchema": _KEYS, "keyTimeZone": str(zone)}
    ours, raw = _both(spark, kafka, name, form, **given, valueFormat="string")
    key = F.from_json(F.col("key").cast("string"), _KEYS).alias("key")
    expected = raw.withColumn("key", key).withColumn("value", F.col("value").cast("string"))

    assert expected.schema.simpleString() == ours.schema.simpleString()
    # Python would replace bytes that are not UTF-8.
    kept = [F.col("*"), F.hex("value").alias("value_bytes")]
    kept += [F.hex("key._corrupt_record").alias("key_bytes")]
    rows = [
        _all_rows(frame.select(*kept), form, tmp_path / str(i))
        for i, frame in enumerate((expected, ours))
    ]
    assert len(_TEXTS) == len(rows[0])
    assert rows[0] == rows[1]


@pytest.mark.parametrize("form", ["stream", "batch"])
def test_flat_values_are_those_of_from_json(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, form: str
) -> None:
    """The columns are those of ``SELECT value.*, partition, offset``, for every kind of value."""
    name, schema = topic(), f"{_SCHEMA}, _corrupt_record STRING"
    _send(kafka, name, _GOOD + _ODD + _GOOD)
    ours, raw = _both(
        spark, kafka, name, form, columns="value,partition,offset", valueFormat="json",
        valueSchema=schema, valueFields="flat",
    )  # fmt: skip
    parsed = F.from_json(F.col("value").cast("string"), schema).alias("value")
    expected = raw.select(parsed, "partition", "offset").select("value.*", "partition", "offset")

    assert expected.schema.simpleString() == ours.schema.simpleString()
    rows = _all_rows(expected, form, tmp_path / "spark")
    assert 2 * len(_GOOD) + len(_ODD) == len(rows)
    assert rows == _all_rows(ours, form, tmp_path / "kfetch")
