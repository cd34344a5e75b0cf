"""kfetch delivers keys and values as structs, as strings, or their fields as columns."""

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

JSON_OPTIONS = {"valueFormat": "json", "valueSchema": "id INT, n STRUCT<x: STRING>"}
LARGE_REPLIES = {"kafka__max__partition__fetch__bytes": "1048576"}


def _append_json(kafka: LittleKafka) -> list[Any]:
    kafka.create("t", 2)
    kafka.log(T0).append(b'{"id":1}', b'{"id":2,"n":{"x":"y"}}', b"")
    kafka.log(T1).append(b'{"id":3}', b'{"id":"bad","n":{"x":"kept"}}', b'{"id":4}')
    return [part(kafka, T0, 0, 3), part(kafka, T1, 0, 3)]


def _struct(number: int | None, text: str | None = None) -> dict[str, Any]:
    return {"id": number, "n": None if text is None else {"x": text}}


def _values_by_position(batches: Any) -> dict[tuple[int, int], Any]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {(row["partition"], row["offset"]): row["value"] for row in rows}


@pytest.mark.parametrize("extra", [{}, LARGE_REPLIES])
def test_values_are_structs(extra: dict[str, str]) -> None:
    """The column has the schema's type. An empty value is null. A field of the wrong type is null,
    and the other fields of its value stay."""
    with LittleKafka(1) as kafka:
        ranges = _append_json(kafka)
        batches = list(query(kafka, **JSON_OPTIONS, **extra).read(ranges))

        column_type = pa.struct([("id", pa.int32()), ("n", pa.struct([("x", pa.string())]))])
        assert {column_type} == {batch.schema.field("value").type for batch in batches}
        assert {
            (0, 0): _struct(1),
            (0, 1): _struct(2, "y"),
            (0, 2): None,
            (1, 0): _struct(3),
            (1, 1): _struct(None, "kept"),
            (1, 2): _struct(4),
        } == _values_by_position(batches)


def test_a_format_does_not_wait_until_another_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling Avro takes seconds. Meanwhile, JSON columns can be decoded, because JSON is
    loaded."""
    compiling_started, compiling_may_end = Event(), Event()

    def compile_slowly(*_: Any) -> Any:
        compiling_started.set()
        assert compiling_may_end.wait(60)
        raise RuntimeError

    decoded_before, first_time, avro = (
        (JsonColumn(column="value", schema="before INT"),),
        (JsonColumn(column="value", schema="first INT"),),
        (AvroColumn(column="value", schema='{"type":"record","name":"R","fields":[]}'),),
    )
    decoders = typed_values.typed_values(decoded_before)
    monkeypatch.setattr(loading, "_loaded", {"json": loading.load("json")})
    monkeypatch.setattr(loading, "_linked", compile_slowly)
    with ThreadPoolExecutor() as pool:
        try:
            avro_decoders = pool.submit(typed_values.typed_values, avro)
            assert compiling_started.wait(60)
            assert decoders is pool.submit(typed_values.typed_values, decoded_before).result(2)
            assert pool.submit(typed_values.typed_values, first_time).result(2)
        finally:
            compiling_may_end.set()
        assert isinstance(avro_decoders.exception(10), RuntimeError)


KEY_OPTIONS = {"keyFormat": "json", "keySchema": "k INT, t TIMESTAMP", "keyTimeZone": "+01:00"}


def _append_with_json_keys(kafka: LittleKafka) -> list[Any]:
    kafka.create("t", 1)
    keys = b'{"t":"1970-01-01T01:00:01"}', b'{"k":7}', None, b"", b"{", b'{"k":8}'
    kafka.log(T0).append(*(b'{"id":%d}' % i for i in range(6)), keys=keys)
    return [part(kafka, T0, 0, 6)]


@pytest.mark.parametrize("values", [{}, JSON_OPTIONS, {"valueFormat": "string"}])
@pytest.mark.parametrize("extra", [{}, LARGE_REPLIES, {"columns": "offset,key,value"}])
def test_keys_are_structs(extra: dict[str, str], values: dict[str, str]) -> None:
    """Keys have a format of their own, whatever the format of the values is. Null and empty keys
    are null."""
    with LittleKafka(1) as kafka:
        batches = list(
            query(kafka, **KEY_OPTIONS, **values, **extra).read(_append_with_json_keys(kafka))
        )

    one_second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [
        {"k": None, "t": one_second},
        {"k": 7, "t": None},
        None,
        None,
        {"k": None, "t": None},
        {"k": 8, "t": None},
    ] == [row["key"] for row in rows]
    values_of_formats = {"json": _struct, "string": '{{"id":{}}}'.format}
    value_of = values_of_formats.get(values.get("valueFormat", ""), lambda i: b'{"id":%d}' % i)
    assert [value_of(i) for i in range(6)] == [row["value"] for row in rows]


@pytest.mark.parametrize("columns", [{}, {"columns": "value,key"}])
def test_strings_may_hold_bytes_that_are_no_utf_8(columns: dict[str, str]) -> None:
    """The format ``string`` delivers the bytes unchanged and unchecked, as Spark's cast to string
    does."""
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        kafka.log(T0).append(b"x\xff", "ü".encode(), b"", keys=[b"\xc3", None, b"k"])
        formats = {"valueFormat": "string", "keyFormat": "string"}
        (batch,) = query(kafka, **formats, **columns).read([part(kafka, T0, 0, 3)])

    assert {pa.string()} == {batch.schema.field(name).type for name in ("key", "value")}
    assert [b"x\xff", "ü".encode(), b""] == batch["value"].cast(pa.binary()).to_pylist()
    assert [b"\xc3", None, b"k"] == batch["key"].cast(pa.binary()).to_pylist()


@pytest.mark.parametrize("extra", [{}, LARGE_REPLIES])
@pytest.mark.parametrize("columns", ["value", "offset,value,partition", "key,value"])
def test_flat_fields_are_columns(columns: str, extra: dict[str, str]) -> None:
    """With valueFields=flat, the fields are columns in the place of the value's column. For a null
    value, all of them are null. A field of the wrong type is null, and ``_corrupt_record`` has the
    document."""
    fields = {"valueSchema": "id INT, _corrupt_record STRING, offset_ STRING"}
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        values = b'{"id":1,"offset_":"x"}', b"", b'{"id":"bad"}', b'{"id":2}'
        kafka.log(T0).append(*values, keys=[b'{"k":1}'] * 4)
        formats = {**JSON_OPTIONS, **fields, **(KEY_OPTIONS if "key" in columns else {})}
        reader = query(kafka, **formats, **extra, columns=columns, valueFields="flat")
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
