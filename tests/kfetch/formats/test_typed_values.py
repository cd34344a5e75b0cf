"""Readers deliver keys and values as structs, strings or flat columns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from kfetch.formats import loading, typed_values
from kfetch.formats.avro.options import AvroColumn
from kfetch.formats.json.options import JsonColumn
from tests.kfetch.fetch.helpers import T0, T1, part, query
from tests.kfetch.wire.little import LittleKafka

JSON = {"valueFormat": "json", "valueSchema": "id INT, n STRUCT<x: STRING>"}
LARGE = {"kafka__max__partition__fetch__bytes": "1048576"}


def _logs(kafka: LittleKafka) -> list[Any]:
    kafka.create("t", 2)
    kafka.log(T0).append(b'{"id":1}', b'{"id":2,"n":{"x":"y"}}', b"")
    kafka.log(T1).append(b'{"id":3}', b'{"id":"bad","n":{"x":"kept"}}', b'{"id":4}')
    return [part(kafka, T0, 0, 3), part(kafka, T1, 0, 3)]


def _row(number: int | None, text: str | None = None) -> dict[str, Any]:
    return {"id": number, "n": None if text is None else {"x": text}}


def _values(batches: Any) -> dict[tuple[int, int], Any]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {(row["partition"], row["offset"]): row["value"] for row in rows}


@pytest.mark.parametrize("more", [{}, LARGE])
def test_values_are_structs(more: dict[str, str]) -> None:
    """The column has the type of the schema. Empty values are null, and misfits are partial."""
    with LittleKafka(1) as kafka:
        ranges = _logs(kafka)
        batches = list(query(kafka, **JSON, **more).read(ranges))

        kind = pa.struct([("id", pa.int32()), ("n", pa.struct([("x", pa.string())]))])
        assert {kind} == {batch.schema.field("value").type for batch in batches}
        assert {
            (0, 0): _row(1),
            (0, 1): _row(2, "y"),
            (0, 2): None,
            (1, 0): _row(3),
            (1, 1): _row(None, "kept"),
            (1, 2): _row(4),
        } == _values(batches)


def test_compiling_one_format_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of Avro is compiled for seconds. Meanwhile, JSON that is loaded can be read."""
    compiles, ends = Event(), Event()

    def slow(*_: Any) -> Any:
        compiles.set()
        assert ends.wait(60)
        raise RuntimeError

    known, new, avro = (
        (JsonColumn(column="value", schema="known INT"),),
        (JsonColumn(column="value", schema="new INT"),),
        (AvroColumn(column="value", schema='{"type":"record","name":"R","fields":[]}'),),
    )
    shared = typed_values.typed_values(known)
    monkeypatch.setattr(loading, "_loaded", {"json": loading.load("json")})
    monkeypatch.setattr(loading, "_linked", slow)
    with ThreadPoolExecutor() as pool:
        try:
            compiling = pool.submit(typed_values.typed_values, avro)
            assert compiles.wait(60)
            assert shared is pool.submit(typed_values.typed_values, known).result(2)
            assert pool.submit(typed_values.typed_values, new).result(2)
        finally:
            ends.set()
        assert isinstance(compiling.exception(10), RuntimeError)


KEYS = {"keyFormat": "json", "keySchema": "k INT, t TIMESTAMP", "keyTimeZone": "+01:00"}


def _log_with_keys(kafka: LittleKafka) -> list[Any]:
    kafka.create("t", 1)
    times = b'{"t":"1970-01-01T01:00:01"}', b'{"k":7}', None, b"", b"{", b'{"k":8}'
    kafka.log(T0).append(*(b'{"id":%d}' % i for i in range(6)), keys=times)
    return [part(kafka, T0, 0, 6)]


@pytest.mark.parametrize("values", [{}, JSON, {"valueFormat": "string"}])
@pytest.mark.parametrize("more", [{}, LARGE, {"columns": "offset,key,value"}])
def test_keys_are_structs(more: dict[str, str], values: dict[str, str]) -> None:
    """They have a format of their own. Null and empty keys are null, as values are."""
    with LittleKafka(1) as kafka:
        batches = list(query(kafka, **KEYS, **values, **more).read(_log_with_keys(kafka)))

    second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [
        {"k": None, "t": second},
        {"k": 7, "t": None},
        None,
        None,
        {"k": None, "t": None},
        {"k": 8, "t": None},
    ] == [row["key"] for row in rows]
    kinds = {"json": lambda i: _row(i), "string": '{{"id":{}}}'.format}
    made = kinds.get(values.get("valueFormat", ""), lambda i: b'{"id":%d}' % i)
    assert [made(i) for i in range(6)] == [row["value"] for row in rows]


@pytest.mark.parametrize("columns", [{}, {"columns": "value,key"}])
def test_strings_are_not_checked(columns: dict[str, str]) -> None:
    """The format string takes the bytes as they are, like Spark's cast."""
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        kafka.log(T0).append(b"x\xff", "ü".encode(), b"", keys=[b"\xc3", None, b"k"])
        formats = {"valueFormat": "string", "keyFormat": "string"}
        (batch,) = query(kafka, **formats, **columns).read([part(kafka, T0, 0, 3)])

    assert {pa.string()} == {batch.schema.field(name).type for name in ("key", "value")}
    assert [b"x\xff", "ü".encode(), b""] == batch["value"].cast(pa.binary()).to_pylist()
    assert [b"\xc3", None, b"k"] == batch["key"].cast(pa.binary()).to_pylist()


@pytest.mark.parametrize("more", [{}, LARGE])
@pytest.mark.parametrize("columns", ["value", "offset,value,partition", "key,value"])
def test_flat_values_are_columns(columns: str, more: dict[str, str]) -> None:
    """The fields stand in place of the value. A null value makes all of them null. A bad field is
    null, and ``_corrupt_record`` has the document."""
    fields = {"valueSchema": "id INT, _corrupt_record STRING, offset_ STRING"}
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        values = b'{"id":1,"offset_":"x"}', b"", b'{"id":"bad"}', b'{"id":2}'
        kafka.log(T0).append(*values, keys=[b'{"k":1}'] * 4)
        formats = {**JSON, **fields, **(KEYS if "key" in columns else {})}
        reader = query(kafka, **formats, **more, columns=columns, valueFields="flat")
        batches = list(reader.read([part(kafka, T0, 0, 4)]))

    names = columns.replace("value", "id,_corrupt_record,offset_").split(",")
    assert {tuple(names)} == {tuple(batch.schema.names) for batch in batches}
    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    assert [1, None, None, 2] == table["id"].to_pylist()
    assert [None, None, '{"id":"bad"}', None] == table["_corrupt_record"].to_pylist()
    assert ["x", None, None, None] == table["offset_"].to_pylist()
    if "offset" in names:
        assert [0, 1, 2, 3] == table["offset"].to_pylist()
    if "key" in names:
        assert [1, 1, 1, 1] == [key["k"] for key in table["key"].to_pylist()]
