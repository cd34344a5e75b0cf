"""Protobuf values in any Spark: rows known beforehand, so no ``from_protobuf`` is needed."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.conftest import TopicFactory
from integration.records import producer
from integration.streams import drain, finish, kfetch
from kfetch_jobs.kafka import Cluster
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number, sized

pytestmark = [pytest.mark.integration, pytest.mark.long]

_FILE = """
syntax = "proto2"; package shop;
message Line { required string name = 1; optional int32 count = 2 [default = 1]; }
message Order { required int64 id = 1; repeated Line lines = 2; map<string, int32> m = 3;
    optional google.protobuf.Timestamp at = 4; optional google.protobuf.Duration took = 5; }
"""
TYPES = descriptor_set(_FILE)
LINE = sized(2, sized(1, b"pen"))
_TIMES = sized(4, number(1, 1_700_000_000)) + sized(5, number(1, 7) + number(2, 5000))
GOOD = [number(1, i) + LINE * (i % 3) + sized(3, sized(1, b"k") + number(2, i)) + _TIMES
         for i in range(500)]  # fmt: skip


def options_of_orders(directory: Path) -> dict[str, str]:
    """The options of Protobuf values. ``directory`` gets the descriptors."""
    path = directory / "types.desc"
    path.write_bytes(TYPES)
    return {"valueFormat": "protobuf", "valueDescriptor": str(path), "valueMessage": "shop.Order"}


def send(cluster: Cluster, topic: str, values: list[Any]) -> None:
    """Write values into partition 0."""
    with producer(cluster, linger_ms=5) as sender:
        for value in values:
            sender.send(topic, value, key=b"k", partition=0)


def _row(i: int) -> dict[str, Any]:
    """The struct of a good value."""
    lines = [{"name": "pen", "count": 1}] * (i % 3)
    times = {"at": datetime.fromtimestamp(1_700_000_000), "took": timedelta(0, 7, 5)}
    return {"id": i, "lines": lines, "m": {"k": i}, **times}


@pytest.mark.parametrize("place", ["process", "inline"])
def test_rows(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, place: str
) -> None:
    """Each value gives its struct. Null and damaged values give null."""
    name = topic()
    send(kafka, name, [*GOOD, None, b"\xff"])
    options = {"subscribe": name, "startingOffsets": "earliest", "kfetch.agent": place}
    frame = kfetch(spark, kafka, **options, **options_of_orders(tmp_path), valueMode="PERMISSIVE")
    rows = drain(frame.select("partition", "offset", "value"), tmp_path / "kfetch").rows

    expected = [*map(_row, range(len(GOOD))), None, None]
    assert expected == [row.value and row.value.asDict(True) for row in rows]


def test_failfast_names_the_record(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """valueMode=FAILFAST fails the query with the topic, the partition, the offset and the byte."""
    name = topic()
    send(kafka, name, [*GOOD, number(1, 7) + b"\x12"])
    options = {"subscribe": name, "startingOffsets": "earliest", "valueMode": "FAILFAST"}
    query = (
        kfetch(spark, kafka, **options, **options_of_orders(tmp_path)).writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    with pytest.raises(Exception, match="MALFORMED_VALUE") as failure:
        finish(query)

    sentence = f"the record at offset 500 of {name}-0 does not fit valueMessage: the value ends"
    assert sentence in str(failure.value)
