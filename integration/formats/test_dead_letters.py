"""The column deadLetter in a real Spark: in streams and batches, in the agent and inline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from integration.conftest import TopicFactory
from integration.records import producer
from integration.streams import drain, kfetch
from kfetch_jobs.kafka import Cluster

pytestmark = [pytest.mark.integration, pytest.mark.long]

_AVRO = '{"type":"record","name":"R","fields":[{"name":"id","type":"long"}]}'
_FORMATS = {
    "json": ({"valueSchema": "id BIGINT, name STRING"}, b'{"id":%d}', b'{"id":"x","name":"n"}'),
    "avro": ({"valueSchema": _AVRO}, b"%c", b"\x80"),
}


@pytest.mark.parametrize("place", ["process", "inline"])
@pytest.mark.parametrize("fields", ["nested", "flat"])
@pytest.mark.parametrize("form", _FORMATS)
def test_each_record_arrives(
    spark: SparkSession,
    kafka: Cluster,
    topic: TopicFactory,
    tmp_path: Path,
    place: str,
    fields: str,
    form: str,
) -> None:
    """Good records have no dead letter. The others have their reasons and bytes, in a stream as in
    a batch read."""
    name = topic()
    schema, good, bad = _FORMATS[form]
    with producer(kafka) as sender:
        for number in range(100):
            wrong = number % 10 == 0
            key = b"{" if number % 25 == 0 else b'{"k":%d}' % number
            sender.send(name, bad if wrong else good % number, key=key, partition=0)
        sender.send(name, None, key=b"{}", partition=0)
    options = {
        **schema,
        **{"subscribe": name, "startingOffsets": "earliest", "kfetch.agent": place},
        **{"valueFormat": form, "valueFields": fields, "deadLetters": "column"},
        **{"keyFormat": "json", "keySchema": "k INT"},
        "columns": "deadLetter,key,value,partition,offset",
    }
    stream = drain(kfetch(spark, kafka, **options), tmp_path).rows
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    batch = spark.read.format("kfetch").options(**servers, **options).load().collect()

    assert _sorted(stream) == _sorted(batch)
    rows = _sorted(stream)
    assert [*range(101)] == [row.offset for row in rows]
    assert {*range(0, 100, 10), 25, 75} == {row.offset for row in rows if row.deadLetter}
    both, one, key = (rows[offset].deadLetter for offset in (50, 10, 25))
    reason = "the value does not fit valueSchema: field id"
    assert both.error.startswith("the key does not fit keySchema: ")
    assert f"; {reason}" in both.error
    assert one.error.startswith(reason)
    assert (b'{"k":10}', bad) == (bytes(one.key), bytes(one.value))
    assert (b"{", good % 25) == (bytes(key.key), bytes(key.value))
    kept = [row.id if fields == "flat" else row.value.id for row in (rows[25], rows[26])]
    assert [_id(form, 25), _id(form, 26)] == kept


def _id(form: str, number: int) -> int:
    zigzag = (number >> 1) ^ -(number & 1)
    return zigzag if form == "avro" else number


def _sorted(rows: list[Row]) -> list[Any]:
    return sorted(rows, key=lambda row: row.offset)
