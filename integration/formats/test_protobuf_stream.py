"""Protobuf values in a real Spark: the agent decodes, and the rows are those of from_protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from integration.conftest import TopicFactory
from integration.formats.protobuf_oracle import decoded, protobuf_session
from integration.formats.test_protobuf_values import GOOD, LINE, TYPES, options_of_orders, send
from integration.streams import drain, kfetch
from kfetch_jobs.errors import JobsError
from kfetch_jobs.kafka import Cluster
from tests.kfetch.formats.protobuf.wire import number, sized

pytestmark = [pytest.mark.integration, pytest.mark.long]

_ODD = [
    b"",
    None,
    b"\xff",
    number(1, 7) + b"\x12",
    LINE,
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


def _plain(frame: DataFrame, checkpoint: Path) -> list[Any]:
    rows = drain(frame, checkpoint).rows
    return sorted(
        ((row.offset, row.value and row.value.asDict(True)) for row in rows),
        key=lambda pair: int(pair[0]),
    )


@pytest.mark.parametrize("place", ["process", "inline"])
def test_the_rows_are_those_of_from_protobuf(
    spark: SparkSession, kafka: Cluster, topic: TopicFactory, tmp_path: Path, place: str
) -> None:
    """Good, damaged, empty and null values give the same structs, of the same type."""
    name = topic()
    send(kafka, name, GOOD + _ODD + GOOD)
    shared = {"subscribe": name, "startingOffsets": "earliest", "kfetch.agent": place}
    permissive = options_of_orders(tmp_path) | {"valueMode": "PERMISSIVE"}
    ours = kfetch(spark, kafka, **shared, **permissive).select("partition", "offset", "value")
    struct = decoded(TYPES, "shop.Order")
    theirs = kfetch(spark, kafka, **shared).select("partition", "offset", struct)

    assert theirs.schema["value"].dataType == ours.schema["value"].dataType
    assert _plain(theirs, tmp_path / "spark") == _plain(ours, tmp_path / "kfetch")
