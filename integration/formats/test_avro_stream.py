"""``valueFormat=avro`` in a real Spark: the agent decodes, and the rows are those of from_avro."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.formats.avro_oracle import from_avro_sql, prepare
from integration.records import producer
from integration.streams import drain, finish, kfetch
from kfetch_jobs.kafka import Cluster
from tests.kfetch.formats.avro.cases import comparable
from tests.kfetch.formats.avro.records import record

pytestmark = [pytest.mark.integration, pytest.mark.long]

_WRITER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "gone", "type": {"type": "array", "items": "string"}},
        {"name": "state", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "either", "type": ["null", "int", "string"]},
        {"name": "m", "type": {"type": "map", "values": ["null", "double"]}},
    ],
}
_READER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "number", "type": "double", "aliases": ["id"]},
        {
            "name": "state",
            "type": {"type": "enum", "name": "E", "symbols": ["C", "A"], "default": "C"},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "either", "type": ["null", "string", "int"]},
        {"name": "m", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "new", "type": ["null", "string"], "default": None},
    ],
}
_ALIASES = {
    "type": "record",
    "name": "Swapped",
    "fields": [
        {"name": "a", "type": "int", "aliases": ["b"]},
        {"name": "b", "type": "int", "aliases": ["a"]},
        {
            "name": "u",
            "type": [
                "null",
                {"type": "record", "name": "V1", "fields": [{"name": "i", "type": "int"}]},
                {
                    "type": "record",
                    "name": "V2",
                    "aliases": ["V1"],
                    "fields": [{"name": "i", "type": "int"}],
                },
            ],
        },
        {"name": "m", "type": {"type": "map", "values": "int"}},
    ],
}
_BOTH = {"valueSchema": json.dumps(_WRITER), "valueReaderSchema": json.dumps(_READER)}


def _send(cluster: Cluster, topic: str, values: list[bytes | None]) -> None:
    with producer(cluster, linger_ms=5) as sender:
        for value in values:
            sender.send(topic, value, key=b"k", partition=0)


def _rows(frame: Any, checkpoint: Path) -> list[Any]:
    rows = sorted(drain(frame, checkpoint).rows, key=lambda row: row.offset)
    return [(row.offset, row.value and repr(comparable(_plain(row.value)))) for row in rows]


def _plain(value: Any) -> Any:
    row = value.asDict(True)
    return row | {"m": row["m"] and sorted(row["m"].items())}


@pytest.mark.parametrize("place", ["process", "inline"])
def test_the_rows_are_those_of_from_avro(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, place: str
) -> None:
    """Whole, cut, empty and null values give the same structs, in the agent and inline."""
    prepare(spark)
    items: list[bytes | None] = [record(rng := Random(5), _WRITER) for _ in range(500)]
    items += [item[: rng.randrange(len(item))] for item in items[:100] if item] + [b"", None]
    _compare(spark, kafka, topic(), tmp_path, items, (_WRITER, _READER), place)


@pytest.mark.parametrize("reader", [None, _ALIASES])
def test_aliases_of_equal_schemas_change_nothing(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, reader: Any
) -> None:
    """A union's members and fields keep their places if the reader's schema is the writer's."""
    prepare(spark)
    rng = Random(7)
    items: list[bytes | None] = [record(rng, _ALIASES) for _ in range(200)]
    _compare(spark, kafka, topic(), tmp_path, items, (_ALIASES, reader), "process")


def _compare(
    spark: SparkSession,
    kafka: Cluster,
    name: str,
    directory: Path,
    items: list[bytes | None],
    schemas: tuple[Any, Any],
    place: str,
) -> None:
    _send(kafka, name, items)
    shared = {"subscribe": name, "startingOffsets": "earliest", "kfetch.agent": place}
    writer, reader = schemas
    given = {"valueSchema": json.dumps(writer)}
    given |= {} if reader is None else {"valueReaderSchema": json.dumps(reader)}
    ours = kfetch(
        spark, kafka, **shared, **given, valueFormat="avro", valueMode="PERMISSIVE"
    ).select("partition", "offset", "value")
    call = from_avro_sql(writer, reader)
    theirs = kfetch(spark, kafka, **shared).selectExpr("partition", "offset", f"{call} AS value")

    assert _rows(theirs, directory / "spark") == _rows(ours, directory / "kfetch")


def test_failfast_names_the_record(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """Without valueMode, the query fails with the topic, the partition, the offset and the byte."""
    rng, name = Random(6), topic()
    _send(kafka, name, [*(record(rng, _WRITER) for _ in range(50)), b"\x80"])
    frame = kfetch(
        spark, kafka, subscribe=name, startingOffsets="earliest", valueFormat="avro", **_BOTH
    )
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="MALFORMED_VALUE") as failure:
        finish(query)

    sentence = (
        f"the record at offset 50 of {name}-0 does not fit valueReaderSchema: field number: the"
    )
    assert sentence in str(failure.value)
