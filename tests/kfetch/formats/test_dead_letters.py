"""Records that can't be decoded: the column deadLetter, and the counts of statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kfetch.formats import dead_letters
from kfetch.formats.dead_letters import UNEXAMINED, Misfits
from kfetch.formats.places import places
from kfetch.model import TopicPartition
from kfetch.records import Memory, Slice
from kfetch.spark.options import parse
from tests.kfetch.fetch.helpers import T0, T1, part, query
from tests.kfetch.formats.columns.test_raw_copies import Counted
from tests.kfetch.records.batch_builder import batch, make_slice, record
from tests.kfetch.test_decoding_parts import CountedMemory
from tests.kfetch.wire.little import LittleKafka

VALUES = {"valueFormat": "json", "valueSchema": "id INT"}
KEYS = {"keyFormat": "json", "keySchema": "k INT"}
LARGE = {"kafka__max__partition__fetch__bytes": "1048576"}
BAD_VALUE = "the value does not fit valueSchema: field id is no INT, at byte 8"
BAD_KEY = "the key does not fit keySchema: the document ends inside an object, at byte 1"


def _logs(kafka: LittleKafka) -> list[Any]:
    kafka.create("t", 2)
    keys = b'{"k":1}', b"{", None, b"{"
    kafka.log(T0).append(b'{"id":0}', b'{"id":1}', b'{"id":"x"}', b'{"id":"y"}', keys=keys)
    kafka.log(T1).append(b"", b'{"id":2}', keys=[None, b""])
    return [part(kafka, T0, 0, 4), part(kafka, T1, 0, 2)]


@pytest.mark.parametrize("more", [{}, LARGE])
@pytest.mark.parametrize(
    "columns", ["", "value,key,deadLetter", "deadLetter,value,offset,key", "key,deadLetter,value"]
)
@pytest.mark.parametrize("fields", ["nested", "flat"])
def test_the_column(columns: str, more: dict[str, str], fields: str) -> None:
    """It is null for good records. Others have the reasons, and the bytes of key and value. The
    rest of the row is that of PERMISSIVE."""
    with LittleKafka(1) as kafka:
        ranges = _logs(kafka)
        options = {**VALUES, **KEYS, **more, "deadLetters": "column", "valueFields": fields}
        if columns:
            options["columns"] = columns
        batches = list(query(kafka, **options).read(ranges))

    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    if columns:
        names = columns.replace("value", "id") if fields == "flat" else columns
        assert names.split(",") == table.schema.names
    letters = [row for row in table["deadLetter"].to_pylist() if row]
    assert [
        {"error": BAD_KEY, "key": b"{", "value": b'{"id":1}'},
        {"error": BAD_VALUE, "key": None, "value": b'{"id":"x"}'},
        {"error": f"{BAD_KEY}; {BAD_VALUE}", "key": b"{", "value": b'{"id":"y"}'},
    ] == letters
    ids = table["id"] if fields == "flat" else [v and v["id"] for v in table["value"].to_pylist()]
    assert [0, 1, 2, None, None, None] == sorted(pa.array(ids).to_pylist(), key=str)


def test_the_schema_is_that_of_spark() -> None:
    """The column of a batch has the same type with dead letters and without."""
    bad, good = Misfits(all_reasons=True), Misfits(all_reasons=True)
    bad.add(_numbers(1), _numbers(1), lambda _: dead_letters.Reason("kind", "sentence"))
    raw = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})
    columns = [dead_letters.column_of(one, raw, Memory()) for one in (bad, good)]
    assert columns[0].type == columns[1].type
    assert [None, {"error": "sentence", "key": None, "value": b"b"}] == columns[0].to_pylist()
    assert [None, None] == columns[1].to_pylist()


def test_memory_of_the_column() -> None:
    """All buffers are counted. A row costs no more than the size that plans of parts use."""
    misfits, memory = Misfits(all_reasons=True), Counted()
    numbers = _numbers(*range(1000))
    misfits.add(numbers, numbers, lambda _: dead_letters.Reason("kind", "s" * 100))
    raw = pa.RecordBatch.from_pydict({"key": [b"k" * 50] * 1000, "value": [b"v" * 80] * 1000})
    column = dead_letters.column_of(misfits, raw, memory)
    size = sum(buffer.size for buffer in column.buffers() if buffer)
    assert size - 125 <= memory.size <= 1000 * (100 + 50 + 80 + dead_letters.ROW_BYTES)


def test_only_some_reasons_are_found_for_statistics() -> None:
    """Without the column, nobody pays for the reason of each record of a bad topic."""
    asked: list[int] = []

    def reason(row: int) -> dead_letters.Reason:
        asked.append(row)
        return dead_letters.Reason("k", "s")

    misfits = Misfits(all_reasons=False)
    misfits.add(_numbers(*range(1000)), _numbers(*[9] * 1000), reason)
    named = pa.RecordBatch.from_pydict({"topic": ["t"] * 999 + ["u"]})
    slices = [_slice("t"), _slice("u")]
    options = parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t,u"})
    counts = set(dead_letters.counts(misfits, named, slices, options, Memory()))
    assert {("t", "k", 16), ("t", UNEXAMINED, 983), ("u", UNEXAMINED, 1)} == counts
    assert 16 == len(asked)


@pytest.mark.parametrize("columns", ["value", "topic,value"])
def test_statistics(columns: str) -> None:
    """They count records that can't be decoded by topic and kind, without a place in the value."""
    with LittleKafka(1) as kafka:
        ranges = _logs(kafka)
        kafka.create("u", 1)
        other = TopicPartition("u", 0)
        kafka.log(other).append(b"x")
        reader = query(kafka, **VALUES, **LARGE, columns=columns, subscribe="t,u")
        list(reader.read([*ranges, part(kafka, other, 0, 1)]))
        stats = reader.stats()

    assert 3 == stats.undecoded
    assert {
        "t": {"value: field id is no INT": 2},
        "u": {"value: a word without quotes is no JSON value": 1},
    } == stats.undecoded_kinds


@pytest.mark.parametrize("letters", [{}, {"deadLetters": "column"}])
@pytest.mark.parametrize(("size", "examined"), [(100, 16), (5000, 3), (30_000, 1)])
def test_large_values_are_examined_up_to_some_bytes(
    size: int, examined: int, letters: dict[str, str]
) -> None:
    """Reasons for statistics alone are found for 16 KiB of a batch's values, and for one at least.

    The column has the reason of each record.
    """
    value = b'{"id":"x","s":"%s"}' % (b"s" * size)
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        kafka.log(T0).append(*[value] * 18)
        reader = query(kafka, **VALUES, **LARGE, **letters)
        list(reader.read([part(kafka, T0, 0, 18)]))
        kinds = reader.stats().undecoded_kinds["t"]

    known = 18 if letters else examined
    expected = {"value: field id is no INT": known, UNEXAMINED: 18 - known}
    assert {kind: count for kind, count in expected.items() if count} == kinds


@pytest.mark.parametrize("part_bytes", [64, 1 << 20])
def test_places_are_found_in_parts(part_bytes: int) -> None:
    """The slices are decoded again in parts that the memory has room for, and it is given back."""
    batches = [
        batch(*[record(i, b"x" * 50) for i in range(2)], base=base, codec="gzip")
        for base in range(0, 40, 2)
    ]
    slices = [make_slice(b"".join(batches), tp=T0), make_slice(batches[0], tp=T1)]
    options = parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t"})
    memory = CountedMemory(part_bytes)
    found = list(places(slices, [0, 3, 39, 41], options, memory))

    assert [(T0, 0), (T0, 3), (T0, 39), (T1, 1)] == found
    assert 0 == memory.size
    assert memory.peak < 2000 or part_bytes > 2000


def _numbers(*rows: int) -> Any:
    return np.array(rows, np.int32)


def _slice(topic: str) -> Slice:
    return make_slice(b"", tp=TopicPartition(topic, 0))
