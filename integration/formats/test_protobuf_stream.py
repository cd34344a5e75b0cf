"""Protobuf values in a real Spark: the agent decodes, and the rows are those of from_protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from integration.conftest import TopicFactory
from integration.formats.protobuf_oracle import decoded, protobuf_session
from integration.records import producer
from integration.streams import drain, finish, kfetch
from kfetch_jobs.errors import JobsError
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
_TYPES = descriptor_set(_FILE)
_LINE = sized(2, sized(1, b"pen"))
_TIMES = sized(4, number(1, 1_700_000_000)) + sized(5, number(1, 7) + number(2, 5000))
_GOOD = [number(1, i) + _LINE * (i % 3) + sized(3, sized(1, b"k") + number(2, i)) + _TIMES
         for i in range(500)]  # fmt: skip
_ODD = [
    b"",
    None,
    b"\xff",
    number(1, 7) + b"\x12",
    _LINE,
    sized(1, b"x"),
    number(1, 9) + sized(2, b""),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark with from_protobuf."""
    try:
        with protobuf_session(tmp_path_factory.mktemp("protobuf")) as started:
            yield started
    except JobsError as cause:
        pytest.skip(f"no spark-protobuf: {cause}")


@pytest.fixture
def orders(tmp_path: Path) -> dict[str, str]:
    """The options of Protobuf values."""
    path = tmp_path / "types.desc"
    path.write_bytes(_TYPES)
    return {"valueFormat": "protobuf", "valueDescriptor": str(path), "valueMessage": "shop.Order"}


def _send(cluster: Cluster, topic: str, values: list[Any]) -> None:
    with producer(cluster, linger_ms=5) as sender:
        for value in values:
            sender.send(topic, value, key=b"k", partition=0)


def _plain(frame: DataFrame, checkpoint: Path) -> list[Any]:
    rows = drain(frame, checkpoint).rows
    return sorted(
        ((row.offset, row.value and row.value.asDict(True)) for row in rows),
        key=lambda pair: int(pair[0]),
    )


@pytest.mark.parametrize("place", ["process", "inline"])
def test_the_rows_are_those_of_from_protobuf(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path,
    orders: dict[str, str], place: str,
) -> None:  # fmt: skip
    """Good, damaged, empty and null values give the same structs, of the same type."""
    name = topic()
    _send(kafka, name, _GOOD + _ODD + _GOOD)
    shared = {"subscribe": name, "startingOffsets": "earliest", "kfetch.agent": place}
    permissive = orders | {"valueMode": "PERMISSIVE"}
    ours = kfetch(spark, kafka, **shared, **permissive).select("partition", "offset", "value")
    struct = decoded(_TYPES, "shop.Order")
    theirs = kfetch(spark, kafka, **shared).select("partition", "offset", struct)

    assert theirs.schema["value"].dataType == ours.schema["value"].dataType
    assert _plain(theirs, tmp_path / "spark") == _plain(ours, tmp_path / "kfetch")


def test_failfast_names_the_record(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, orders: dict[str, str]
) -> None:
    """valueMode=FAILFAST fails the query with the topic, the partition, the offset and the byte."""
    name = topic()
    _send(kafka, name, [*_GOOD, number(1, 7) + b"\x12"])
    options = {"subscribe": name, "startingOffsets": "earliest", "valueMode": "FAILFAST"}
    query = (
        kfetch(spark, kafka, **options, **orders).writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    with pytest.raises(Exception, match="MALFORMED_VALUE") as failure:
        finish(query)

    sentence = f"the record at offset 500 of {name}-0 does not fit valueMessage: the value ends"
    assert sentence in str(failure.value)
