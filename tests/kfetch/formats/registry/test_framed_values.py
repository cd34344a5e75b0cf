"""Readers decode keys and values in Confluent's wire format, with schemas of a registry."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kfetch.errors import MalformedValue, OptionError, RegistryUnavailable
from kfetch.formats.registry import client
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.fetch.helpers import T0, part, query
from tests.kfetch.formats.avro.records import number
from tests.kfetch.formats.protobuf.cases import alone
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number as field
from tests.kfetch.formats.protobuf.wire import sized
from tests.kfetch.formats.registry.scripted_registry import ScriptedRegistry, framed
from tests.kfetch.spark.test_schema import options
from tests.kfetch.wire.little import LittleKafka


def _fields(*fields: tuple[Any, ...]) -> dict[str, Any]:
    named = [dict(zip(("name", "type", "default"), each, strict=False)) for each in fields]
    return {"type": "record", "name": "R", "fields": named}


V1 = _fields(("id", "int"), ("gone", "string"))
V2 = _fields(("name", ["null", "string"], None), ("id", "long"), ("new", "int", 7))
ONE = number(1) + number(1) + b"x"
TWO = b"\x02" + number(1) + b"a" + number(2) + number(9)
ROWS = [{"name": None, "id": 1, "new": 7}, {"name": "a", "id": 2, "new": 9}]
NULLS = {"name": None, "id": None, "new": None}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedRegistry]:
    """A scripted registry."""
    monkeypatch.setattr(client, "_PAUSES_S", (0.001, 0.002))
    monkeypatch.setattr(client, "_SECOND_LOOK_S", 0.001)
    with ScriptedRegistry() as made:
        yield made


def _read(
    registry: ScriptedRegistry, values: list[bytes | None], *, column: str = "value", **more: str
) -> list[Any]:
    """The rows of a task, with the options that the driver sends it."""
    given = {f"{column}Registry": registry.url, "columns": column, **more}
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        if column == "key":
            kafka.log(T0).append(*values, keys=values)
        else:
            kafka.log(T0).append(*values)
        reader = query(kafka, **given)
        reader.options = with_schema(reader.options, schema(reader.options))
        reader.options = pickle.loads(pickle.dumps(reader.options))
        batches = list(reader.read([part(kafka, T0, 0, len(values))]))
        table = pa.Table.from_batches(batches)
        assert to_arrow_schema(schema(reader.options), timezone="UTC") == table.schema
    return table.to_pylist()


@pytest.mark.parametrize("column", ["key", "value"])
def test_writers_of_two_versions(registry: ScriptedRegistry, column: str) -> None:
    """Records of both are in one batch, and the rows have the fields of the latest version."""
    one, two = (registry.add(each, f"t-{column}") for each in (V1, V2))
    values = [framed(one, ONE), framed(two, TWO), None, framed(one, ONE)]
    rows = _read(registry, values, column=column, **{f"{column}Format": "avro"})
    assert [*ROWS, None, ROWS[0]] == [row[column] for row in rows]


def test_a_schema_is_asked_for_once(registry: ScriptedRegistry) -> None:
    """One request for the latest version in each look-up of the driver, and one for each id."""
    one = registry.add(V1, "t-value")
    for _ in range(3):
        _read(registry, [framed(one, ONE)] * 20, valueFormat="avro")
    assert 1 == registry.requests.count(f"/schemas/ids/{one}")


def test_a_reader_schema_needs_no_subject(registry: ScriptedRegistry) -> None:
    """With it, the driver asks the registry nothing."""
    one = registry.add(V1, "other")
    more = {"valueFormat": "avro", "valueReaderSchema": json.dumps(V2)}
    assert ROWS[0] == _read(registry, [framed(one, ONE)], **more)[0]["value"]
    assert [f"/schemas/ids/{one}"] == registry.requests


def test_a_version_may_be_fixed(registry: ScriptedRegistry) -> None:
    """Newer writers are read with the fields of that version."""
    registry.add(V1 | {"fields": [V1["fields"][0]]}, "t-value")
    two = registry.add(V2 | {"fields": [{"name": "id", "type": "int"}]}, "t-value")
    more = {"valueFormat": "avro", "valueSubjectVersion": "1"}
    assert [{"value": {"id": 3}}] == _read(registry, [framed(two, number(3))], **more)


def test_bad_records_are_structs_of_nulls(registry: ScriptedRegistry) -> None:
    """With PERMISSIVE: damaged headers, unknown ids, other schemas, and damaged records."""
    two = registry.add(V2, "t-value")
    other = registry.add(_fields(("id", "string")), "x")
    proto = registry.add(b"\x22\x00", "p", kind="PROTOBUF")
    bad = [b"", b"\0", b"\0\0\0\0", TWO, framed(99, TWO), framed(other, ONE), framed(proto, ONE),
           framed(two, TWO[:-1])]  # fmt: skip
    more = {"valueFormat": "avro", "valueMode": "PERMISSIVE"}
    rows = _read(registry, [*bad, framed(two, TWO)], **more)
    assert [NULLS] * len(bad) + [ROWS[1]] == [row["value"] for row in rows]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\0\0", "it ends inside the id of its schema, at byte 2"),
        (b"{}", "its first byte is not 0, so it is not in Confluent's wire format, at byte 0"),
        (framed(99, TWO), "has no schema 99, at byte 5"),
        (framed(1, TWO[:-1]), "field new: the value ends inside it, at byte 9"),
        (framed(2, ONE), "the reader's schema can't read any record of schema 2 of the registry"),
    ],
)
def test_failfast_names_the_record(registry: ScriptedRegistry, value: bytes, why: str) -> None:
    """The place, the reason, and the byte of the value with its header."""
    registry.add(V2, "t-value")
    registry.add(_fields(("id", "string")), "x")
    with pytest.raises(MalformedValue) as failure:
        _read(registry, [framed(1, TWO), value], valueFormat="avro")
    assert "the value of the record at offset 1 of t-0 does not fit valueSubject: " in str(
        failure.value
    )
    assert why in str(failure.value)


def test_names_of_writers_stay_text(registry: ScriptedRegistry) -> None:
    """A schema may hold what UTF-8 can't, and ends of lines. A dead letter names it anyway."""
    one = registry.add(V1, "t-value")
    odd = registry.add(V1 | {"name": "\ud800\n", "fields": []}, "x")
    more = {"valueFormat": "avro", "deadLetters": "column", "columns": "deadLetter,value"}
    rows = _read(registry, [framed(one, ONE), framed(odd, b"")], **more)
    assert "record ?? has no field id" in rows[1]["deadLetter"]["error"]


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_an_outage_makes_no_nulls(registry: ScriptedRegistry, mode: str) -> None:
    """In both modes the error names the registry, the schema and the record."""
    one, two = registry.add(V1, "t-value"), registry.add(V2, "t-value")
    more = {"valueFormat": "avro", "valueMode": mode, "kfetch.registry.timeout": "0"}
    reader = json.dumps(V2)

    registry.answers = [(503, b"")] * 500
    with pytest.raises(RegistryUnavailable) as failure:
        _read(registry, [None, framed(one, ONE)], valueReaderSchema=reader, **more)
    sentence = "record at offset 1 of t-0: the schema registry does not give schema 1 within 0 s"
    assert sentence in failure.value.message
    assert registry.url in failure.value.message

    registry.answers = [(503, b"")] * 3
    more["kfetch.registry.timeout"] = "5s"
    rows = _read(registry, [framed(two, TWO)], valueReaderSchema=reader, **more)
    assert [ROWS[1]] == [row["value"] for row in rows]


def test_columns_stay_those_of_spark(registry: ScriptedRegistry) -> None:
    """Each process of Spark asks the registry, and a newer version must not change the columns."""
    registry.add(V1, "t-value")
    of = options(valueFormat="avro", valueRegistry=registry.url)
    known = schema(of)
    registry.add(V2, "t-value")
    (typed,) = with_schema(of, known).typed_columns
    assert V1 == json.loads(typed.reader_schema)  # type: ignore[union-attr]
    assert known != schema(of)


def test_comments_make_no_difference(registry: ScriptedRegistry) -> None:
    """A user's schema may have comments, and names the version that it fits all the same."""
    registry.add(V1, "t-value")
    of = options(valueFormat="avro", valueRegistry=registry.url)
    (value,) = (each for each in schema(of) if each.name == "value")
    value.dataType.fields[0].metadata = {"comment": "of the order"}  # type: ignore[attr-defined]
    registry.add(V2, "t-value")
    (typed,) = with_schema(of, StructType([value])).typed_columns
    assert V1 == json.loads(typed.reader_schema)  # type: ignore[union-attr]


def test_older_versions_that_cant_be_used_are_left_out(registry: ScriptedRegistry) -> None:
    """The version that Spark knows may stand behind one of another type, or a broken one."""
    registry.add(V1, "t-value")
    of = options(valueFormat="avro", valueRegistry=registry.url)
    known = schema(of)
    registry.add("{}", "t-value", kind="JSON")
    registry.add("no schema", "t-value")
    registry.add(V2, "t-value")
    (typed,) = with_schema(of, known).typed_columns
    assert V1 == json.loads(typed.reader_schema)  # type: ignore[union-attr]


def test_a_schema_without_a_version(registry: ScriptedRegistry) -> None:
    """If no version has the columns of the user's schema, the error shows the latest ones."""
    registry.add(V1, "t-value")
    of = options(valueFormat="avro", valueRegistry=registry.url)
    given = schema(options(valueFormat="json", valueSchema="x INT"))
    with pytest.raises(OptionError, match="struct<id:int,gone:string>"):
        with_schema(of, given)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({}, "has no version latest of subject t-value: correct valueSubject"),
        ({"valueSubject": "json"}, "subject json has schemas of type JSON, and valueFormat=avro"),
        ({"valueSubject": "avro", "valueSubjectVersion": "9"}, "no version 9 of subject avro"),
    ],
)
def test_subjects_that_cant_be_read(
    registry: ScriptedRegistry, more: dict[str, str], sentence: str
) -> None:
    """The query does not start, and the sentence says why."""
    registry.add("{}", "json", kind="JSON")
    registry.add(V1, "avro")
    with pytest.raises(OptionError) as mistake:
        schema(options(valueFormat="avro", valueRegistry=registry.url, **more))
    assert sentence in mistake.value.message


def test_avro_references(registry: ScriptedRegistry) -> None:
    """Types of other subjects are known in the writer's schema and in the reader's."""
    registry.add(_fields(("n", "int")) | {"name": "a.Inner"}, "inner")
    outer = registry.add(_fields(("i", "a.Inner"), ("j", "a.Inner")), "t-value",
                         references=(("inner", 1),))  # fmt: skip
    rows = _read(registry, [framed(outer, number(1) + number(2))], valueFormat="avro")
    assert [{"value": {"i": {"n": 1}, "j": {"n": 2}}}] == rows


# Protobuf.

_FILE = """
syntax = "proto3"; package shop;
message Other { string x = 1; message Deep { string y = 1; } }
message Order { int64 id = 1; Order.Item item = 2; map<string, int32> m = 3;
                message Item { string name = 1; } }
"""
ORDER = field(1, 5) + sized(2, sized(1, b"pen"))


def _file(text: str) -> bytes:
    return alone(descriptor_set(text))


def test_protobuf_messages(registry: ScriptedRegistry) -> None:
    """The header names the message. Another message, and no such message, is a bad record."""
    one = registry.add(_file(_FILE), "t-value", kind="PROTOBUF")
    order, other, deep = b"\x02\x02", b"\0", b"\x04\x02\x00"
    values = [framed(one, ORDER, order), framed(one, ORDER, other), framed(one, ORDER, b"\x02\x08"),
              framed(one, ORDER, deep), framed(one, ORDER[:-1], order), framed(77, ORDER, order),
              ORDER, None, framed(one, ORDER, order)]  # fmt: skip
    more = {"valueFormat": "protobuf", "valueMode": "PERMISSIVE", "valueMessage": "shop.Order"}
    row = {"id": 5, "item": {"name": "pen"}, "m": []}
    rows = [each["value"] for each in _read(registry, values, **more)]
    assert [row, *[None] * 7, row] == rows

    with pytest.raises(MalformedValue, match=r"it is a message shop\.Other, and the query reads"):
        _read(registry, values[1:2], **more | {"valueMode": "FAILFAST"})
    with pytest.raises(MalformedValue, match=r"has no message at \[4\]"):
        _read(registry, values[2:3], **more | {"valueMode": "FAILFAST"})


def test_the_first_message_is_the_default(registry: ScriptedRegistry) -> None:
    """Writers of another version of the file are decoded with the reader's fields."""
    old = registry.add(
        _file('syntax = "proto3"; package shop; message Order { int64 id = 1; }'),
        "t-value",
        kind="PROTOBUF",
    )
    new = registry.add(
        _file('syntax = "proto3"; package shop; message Order { int64 id = 1; string s = 2; }'),
        "t-value",
        kind="PROTOBUF",
    )
    values = [framed(old, field(1, 1), b"\0"), framed(new, field(1, 2) + sized(2, b"a"), b"\0")]
    rows = _read(registry, values, valueFormat="protobuf")
    assert [{"id": 1, "s": None}, {"id": 2, "s": "a"}] == [row["value"] for row in rows]


def test_proto_files_as_text_are_refused(registry: ScriptedRegistry) -> None:
    """The sentence says what to do. It is no bad record."""
    one = registry.add('syntax = "proto3"; message M { int32 a = 1; }', "t-value", kind="PROTOBUF")
    with pytest.raises(OptionError, match=r"only as the text of a \.proto file"):
        schema(options(valueFormat="protobuf", valueRegistry=registry.url))
    assert one


# JSON.


def test_json_behind_a_header(registry: ScriptedRegistry) -> None:
    """The header is skipped, and the registry is not asked. Without a header a value is corrupt."""
    values = [framed(1, b'{"a": 1}'), b'{"a": 2}', framed(9, b'{"a": "x"}'), b"\0\0", b"", None,
              framed(1, b""), framed(1, b'{"a": 3')]  # fmt: skip
    more = {"valueFormat": "json", "valueSchema": "a INT, _corrupt_record STRING"}
    rows = [row["value"] for row in _read(registry, values, **more)]
    bad = [{"a": None, "_corrupt_record": text} for text in ('{"a": 2}', '{"a": "x"}', "\0\0", "")]
    cut = {"a": None, "_corrupt_record": '{"a": 3'}
    assert [{"a": 1, "_corrupt_record": None}, *bad, None, None, cut] == rows
    assert [] == registry.requests

    with pytest.raises(MalformedValue, match=r"first byte is not 0, .* at byte 0"):
        _read(registry, values[1:2], **more, valueMode="FAILFAST")


# What Confluent's own serializers for Python wrote (integration/formats/wire_format_record.py).

_WRITTEN = json.loads(
    (Path(__file__).parents[3] / "vectors" / "confluent" / "wire_format.json").read_text()
)


def test_avro_of_confluent_s_serializer(registry: ScriptedRegistry) -> None:
    """Values of two writers have the rows that were given to the serializer."""
    for case in _WRITTEN["avro"]:
        registry.schemas[case["id"]] = {"schema": case["schema"]}
    reader = json.loads(_WRITTEN["avro"][0]["schema"])
    reader["fields"].append({"name": "more1", "type": "int", "default": 0})
    values = [bytes.fromhex(case["value"]) for case in _WRITTEN["avro"]]
    more = {"valueFormat": "avro", "valueReaderSchema": json.dumps(reader)}
    rows = [row["value"] for row in _read(registry, values, **more)]
    assert [{"more0": 0, "more1": 0} | case["row"] for case in _WRITTEN["avro"]] == rows


@pytest.mark.parametrize("case", _WRITTEN["protobuf"], ids=lambda case: str(case["message"]))
def test_protobuf_of_confluent_s_serializer(
    registry: ScriptedRegistry, case: dict[str, Any]
) -> None:
    """The message indexes name the message that was serialized, whatever its place."""
    registry.add(case["schema"], "t-value", kind="PROTOBUF", number=case["id"])
    value = bytes.fromhex(case["value"])
    more = {"valueFormat": "protobuf", "valueMessage": case["message"]}
    expected = {"n": case["n"] or None}
    assert [{"value": expected}] == _read(registry, [value], **more)


def test_bad_records_are_dead_letters(registry: ScriptedRegistry) -> None:
    """A dead letter has the value with its header, and the reason."""
    one = registry.add(V2, "t-value")
    more = {"valueFormat": "avro", "deadLetters": "column", "columns": "value,deadLetter"}
    rows = _read(registry, [framed(one, TWO), framed(9, TWO), b"{}"], **more)
    letters = [row["deadLetter"] for row in rows]
    assert [None, framed(9, TWO), b"{}"] == [letter and letter["value"] for letter in letters]
    assert "has no schema 9" in letters[1]["error"]
    assert "first byte is not 0" in letters[2]["error"]
