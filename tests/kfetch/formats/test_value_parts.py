"""Values that unfold to large columns come in parts: the rows are those of one large batch."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kfetch.agent.budget import Budget
from kfetch.fetch.split_reader import Delivery
from kfetch.model import OffsetRange
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.fetch.helpers import T0, T1, opened, part, query
from tests.kfetch.formats.avro.records import number
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import sized
from tests.kfetch.wire.little import LittleKafka

PART_BYTES = 4096
COUNT = 40
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "l", "type": {"type": "array", "items": "int"}}],
}
LISTS = {
    "json": lambda numbers: json.dumps({"l": numbers}).encode(),
    "avro": lambda numbers: (
        number(len(numbers)) + b"".join(map(number, numbers)) + number(0) * bool(numbers)
    ),
    "protobuf": lambda numbers: sized(1, bytes(numbers)),
}
BAD = {"json": b'{"l":"no"}', "avro": b"\x01", "protobuf": b"\xff"}


@pytest.fixture(params=LISTS)
def kind(request: pytest.FixtureRequest) -> str:
    """A format of values."""
    return str(request.param)


@pytest.fixture
def lists(kind: str) -> Iterator[LittleKafka]:
    """Two partitions of lists with up to 3,000 numbers. Some values are null, and some corrupt."""
    random = Random(7)
    with LittleKafka(1) as kafka:
        kafka.create("t", 2)
        for tp in (T0, T1):
            for _ in range(COUNT // 8):
                values: list[Any] = [
                    LISTS[kind]([random.randrange(100)] * random.choice([0, 3, 3000]))
                    for _ in range(6)
                ]
                kafka.log(tp).append(*values, None, BAD[kind])
        yield kafka


def deliveries(kafka: LittleKafka, kind: str, directory: Path, **more: str) -> list[Delivery]:
    """What a task gets that reads both partitions."""
    file = directory / "types.desc"
    file.write_bytes(descriptor_set('syntax = "proto3"; message M { repeated int32 l = 1; }'))
    formats = {
        "json": {"valueSchema": "l ARRAY<INT>"},
        "avro": {"valueSchema": json.dumps(AVRO)},
        "protobuf": {"valueDescriptor": str(file), "valueMessage": "M"},
    }
    given = {"valueFormat": kind, "valueMode": "PERMISSIVE", **formats[kind], **more}
    given["kafka.max.partition.fetch.bytes"] = "1000000"
    reader = query(kafka, **given)
    options = with_schema(reader.options, schema(reader.options))
    ranges = [part(kafka, tp, 3, COUNT - 1) for tp in (T0, T1)]
    return list(reader.deliveries(ranges, options))


@pytest.mark.parametrize(
    "more",
    [
        {"columns": "value,offset,partition,deadLetter", "deadLetters": "column"},
        {"columns": "value,offset,partition", "valueFields": "flat"},
        {"keyFormat": "string"},
    ],
    ids=["dead letters", "flat", "key"],
)
def test_parts_have_all_rows(
    lists: LittleKafka,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, str],
) -> None:
    """Small parts have the rows of one batch, and as many bytes as a part may have, or one row.

    After each part the worker knows where another reader goes on.
    """
    monkeypatch.setattr(Budget, "part_bytes", sys.maxsize)
    whole = deliveries(lists, kind, tmp_path, **more)
    monkeypatch.setattr(Budget, "part_bytes", PART_BYTES)
    parts = deliveries(lists, kind, tmp_path, **more)

    assert rows(whole) == rows(parts)
    assert len(parts) > len(whole) + 2
    positions = {0: 0, 1: 0}
    for delivery in parts:
        before, positions = positions, positions | dict(delivery.positions)
        assert delivery.batch.num_rows == 1 or 5 * PART_BYTES > delivery.batch.nbytes
        for row in delivery.batch.to_pylist():
            assert before[row["partition"]] <= row["offset"] < positions[row["partition"]]


def rows(found: list[Delivery]) -> list[Any]:
    """All rows, the partitions one after the other."""
    listed = [row for delivery in found for row in delivery.batch.to_pylist()]
    return sorted(listed, key=lambda row: (row["partition"], row["offset"]))


def test_ranges_of_one_partition(
    lists: LittleKafka, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranges of a partition in one task get their own rows, in parts too."""
    monkeypatch.setattr(Budget, "part_bytes", PART_BYTES)
    monkeypatch.setitem(globals(), "part", lambda kafka, tp, *_: half(kafka, tp.partition))
    found = deliveries(lists, kind, tmp_path, columns="value,offset,partition")

    assert [*range(COUNT)] == [row["offset"] for row in rows(found)]


def test_a_damaged_batch_counts_once(
    lists: LittleKafka, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that kfetch skips counts once, although several parts meet it."""
    monkeypatch.setattr(Budget, "part_bytes", PART_BYTES)
    log = lists.log(T0)
    base, end, epoch, data = log.batches[-2]
    log.batches[-2] = base, end, epoch, data[:-1] + bytes([data[-1] ^ 1])
    more = {"columns": "value,offset,partition", "kfetch.onCorruptBatch": "skip"}
    found = deliveries(lists, kind, tmp_path, **more)

    assert len(found) > 3
    assert 2 * (COUNT - 4) - (end - base) == len(rows(found))
    assert 1 == opened[-1].stats().batches_skipped


def half(kafka: LittleKafka, number: int) -> OffsetRange:
    """One half of the first partition."""
    return part_of(kafka, T0, number * COUNT // 2, (number + 1) * COUNT // 2)


part_of = part
