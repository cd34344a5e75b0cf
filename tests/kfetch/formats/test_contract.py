"""What every format does with good and bad values. The toy format does it, too."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from kfetch.errors import MalformedValue, OptionError
from kfetch.formats import face
from kfetch.formats.format import column_class
from kfetch.options.formats import OPTIONS
from kfetch.spark.options import parse
from kfetch.spark.schema import schema
from tests.kfetch.fetch.helpers import T0, T1, part, query
from tests.kfetch.formats.avro.records import number as varint
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number
from tests.kfetch.wire.little import LittleKafka

LARGE = {"kafka__max__partition__fetch__bytes": "1048576"}
REQUIRED = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
TOY = {"fixed": "tests.kfetch.formats.toy"}
"""The line with which a format is registered."""
_FIELDS = [{"name": "id", "type": "int"}, {"name": "t", "type": "string"}]


class Case(NamedTuple):
    """A format with a good value and a bad one."""

    options: Mapping[str, str]
    """By their names behind ``key`` or ``value``."""
    good: bytes
    bad: bytes
    why: str
    """Where the bad one is wrong: the option of the type, the reason and the byte."""
    row: Mapping[str, Any]
    """The good one, decoded."""
    bad_row: Mapping[str, Any] | None
    """The bad one, decoded with PERMISSIVE."""


CASES = {
    "json": Case(
        {"Schema": "id INT, n STRUCT<x: STRING>"},
        b'{"id":1}',
        b'{"id":"bad","n":{"x":"kept"}}',
        "Schema: field id is no INT, at byte 10",
        {"id": 1, "n": None},
        {"id": None, "n": {"x": "kept"}},
    ),
    "avro": Case(
        {"Schema": json.dumps({"type": "record", "name": "R", "fields": _FIELDS})},
        varint(1) + varint(1) + b"a",
        varint(1) + varint(1),
        "Schema: field t: the value ends inside it, at byte 1",
        {"id": 1, "t": "a"},
        {"id": None, "t": None},
    ),
    "protobuf": Case(
        {"Message": "t.M"},
        number(1, 5),
        number(1, 5) + b"\x12\x7f",
        "Message: the value ends inside a field, at byte 2",
        {"id": 5, "tags": []},
        None,
    ),
    "fixed": Case(
        {"Schema": "id 4, name 6"},
        b"17  Ada   ",
        b"17  Ada",
        "Schema: it has 7 bytes, at byte 7",
        {"id": "17", "name": "Ada"},
        None,
    ),
}


def test_every_format_has_a_case() -> None:
    """A new format has to do the same. The toy is no format of the product."""
    assert {*CASES} == {*face.FORMATS, *TOY}
    assert face.FORMATS.keys().isdisjoint(TOY)


@pytest.fixture(params=CASES)
def form(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Case]:
    """A format's name, and its case with the files that it needs. It is registered."""
    for name, folder in TOY.items():
        monkeypatch.setitem(face.FORMATS, name, folder)
    case = CASES[request.param]
    if "Message" in case.options:
        types = 'syntax = "proto2"; package t; message M { required int32 id = 1; '
        file = tmp_path / "types.desc"
        file.write_bytes(descriptor_set(types + "repeated string tags = 2; }"))
        case = case._replace(options={**case.options, "Descriptor": str(file)})
    return request.param, case


def _named(form: tuple[str, Case], column: str) -> dict[str, str]:
    """The options of a column."""
    name, case = form
    texts = {"Format": name, **case.options}
    return {f"{column}{rest}": text for rest, text in texts.items()}


def _read(
    values: list[bytes | None], keys: list[bytes | None] | None = None, **options: str
) -> Any:
    """The table of a topic with these records."""
    with LittleKafka(1) as kafka:
        kafka.create("t", 1)
        kafka.log(T0).append(*values, keys=keys or [None] * len(values))
        reader = query(kafka, **options)
        reader.options = face.with_types(reader.options)
        table = pa.Table.from_batches(list(reader.read([part(kafka, T0, 0, len(values))])))
    table.validate(full=True)
    return table


def _rows(table: Any, case: Case) -> list[Any]:
    """The values. If their fields are columns, a row of nulls stands for a null."""
    if "value" in table.column_names:
        return list(table["value"].to_pylist())
    return list(table.select([*case.row]).to_pylist())


@pytest.mark.parametrize("more", [{}, LARGE])
@pytest.mark.parametrize("fields", ["nested", "flat"])
def test_values_are_structs(form: tuple[str, Case], fields: str, more: dict[str, str]) -> None:
    """The columns have the types that Spark is told. Null values are null. With PERMISSIVE, the row
    of a bad value is there, and so are those behind it."""
    _, case = form
    given = {**_named(form, "value"), "columns": "offset,value", "valueFields": fields}
    given["valueMode"] = "Permissive"
    table = _read([case.good, None, case.bad, case.good], **given, **more)

    known = to_arrow_schema(schema(face.with_types(parse({**REQUIRED, **given}))))
    assert (known.names, known.types) == (table.schema.names, table.schema.types)
    null = dict.fromkeys(case.row) if fields == "flat" else None
    assert [case.row, null, case.bad_row or null, case.row] == _rows(table, case)


def test_keys_are_structs(form: tuple[str, Case]) -> None:
    """They have options of their own. A column of values stays as it is."""
    _, case = form
    table = _read([b"x", b"y"], [case.good, None], **_named(form, "key"), columns="value,key")

    assert [{"value": b"x", "key": case.row}, {"value": b"y", "key": None}] == table.to_pylist()


@pytest.mark.parametrize("more", [{}, LARGE])
def test_dead_letters(form: tuple[str, Case], more: dict[str, str]) -> None:
    """A bad value is a dead letter with the reason and the whole record, whatever the default mode
    is. A key that is bytes is copied."""
    _, case = form
    given = {**_named(form, "value"), "deadLetters": "column"}
    table = _read([case.good, case.bad, case.good], [b"a", b"b", None], **given, **more)

    letter = {"error": f"the value does not fit value{case.why}", "key": b"b", "value": case.bad}
    assert [None, letter, None] == table["deadLetter"].to_pylist()
    assert [case.row, case.bad_row, case.row] == _rows(table, case)


@pytest.mark.parametrize("more", [{}, LARGE])
@pytest.mark.parametrize(
    ("column", "columns"),
    [("value", "value"), ("value", "offset,value,partition"), ("key", "value,key")],
)
def test_failfast_names_the_record(
    form: tuple[str, Case], column: str, columns: str, more: dict[str, str]
) -> None:
    """The error has the topic, the partition and the offset, although no column has them."""
    _, case = form
    items = [case.good, case.bad, case.good]
    with LittleKafka(1) as kafka:
        kafka.create("t", 2)
        _append(kafka, T0, column, [case.good] * 3)
        _append(kafka, T1, column, items)
        given = {**_named(form, column), f"{column}Mode": "FAILFAST"}
        reader = query(kafka, **given, **more, columns=columns)
        reader.options = face.with_types(reader.options)
        with pytest.raises(MalformedValue) as failure:
            list(reader.read([part(kafka, T0, 0, 3), part(kafka, T1, 0, 3)]))

    error = pickle.loads(pickle.dumps(failure.value))
    assert ("t", 1, 1) == (error.topic, error.partition, error.offset)
    assert (
        f"the {column} of the record at offset 1 of t-1 does not fit {column}{case.why}: correct "
        f"the producer or the schema, or set {column}Mode=PERMISSIVE"
    ) == error.message


def _append(kafka: LittleKafka, tp: Any, column: str, items: list[bytes]) -> None:
    if column == "value":
        kafka.log(tp).append(*items)
    else:
        kafka.log(tp).append(*([b"x"] * len(items)), keys=items)


@pytest.mark.parametrize("column", ["key", "value"])
def test_the_schema_is_needed(form: tuple[str, Case], column: str) -> None:
    """Without an option that says the schema, the error names it."""
    name, case = form
    for rest in case.options:
        given = _named(form, column)
        del given[column + rest]
        with pytest.raises(OptionError) as mistake:
            parse({**REQUIRED, **given})
        assert mistake.value.message.startswith(
            f"{column}Format={name} needs option {column}{rest}"
        )


def test_options_of_other_formats_are_mistakes(form: tuple[str, Case]) -> None:
    """The sentence names a format that reads the option."""
    readers = {"Schema": "json", "Message": "protobuf"}
    (rest,) = readers.keys() - form[1].options.keys()
    with pytest.raises(OptionError) as mistake:
        parse({**REQUIRED, **_named(form, "value"), f"value{rest}": "x"})
    assert (
        f"option value{rest} has no effect without valueFormat={readers[rest]}: set "
        f"valueFormat={readers[rest]}, or remove it"
    ) == mistake.value.message


def test_the_documented_default_modes_are_those_of_the_formats() -> None:
    """The declarations of ``valueMode`` and ``keyMode`` say each format's ``default_mode``."""
    formats_by_mode: dict[str, list[str]] = {}
    for name in face.FORMATS:
        formats_by_mode.setdefault(column_class(name).default_mode, []).append(name)
    documented = ", ".join(
        f"{mode} for {' and '.join(names)}" for mode, names in formats_by_mode.items()
    )

    assert documented == OPTIONS["valueMode"].default == OPTIONS["keyMode"].default


def test_default_modes(form: tuple[str, Case]) -> None:
    """As in Spark, values in JSON that do not fit are read. Those of others fail the query."""
    (typed,) = parse({**REQUIRED, **_named(form, "value")}).typed_columns
    assert ("permissive" if form[0] == "json" else "failfast") == typed.mode
