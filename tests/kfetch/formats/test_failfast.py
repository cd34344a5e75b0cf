"""With the mode FAILFAST, every format names the first record that can't be decoded."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfetch.errors import MalformedValue
from kfetch.formats import face
from tests.kfetch.fetch.helpers import T0, T1, part, query
from tests.kfetch.formats.avro.records import number as varint
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number
from tests.kfetch.wire.little import LittleKafka

LARGE = {"kafka__max__partition__fetch__bytes": "1048576"}
_FIELDS = [{"name": "id", "type": "int"}, {"name": "t", "type": "string"}]


class Case(NamedTuple):
    """A format with a good value and a bad one."""

    options: Mapping[str, str]
    """By their names behind ``key`` or ``value``."""
    good: bytes
    bad: bytes
    why: str
    """Where the bad one is wrong: the option of the type, the reason and the byte."""


CASES = {
    "json": Case(
        {"Schema": "id INT, n STRUCT<x: STRING>", "Mode": "FAILFAST"},
        b'{"id":1}',
        b'{"id":"bad","n":{"x":"kept"}}',
        "Schema: field id is no INT, at byte 10",
    ),
    # FAILFAST is the default of the others, as in Spark.
    "avro": Case(
        {"Schema": json.dumps({"type": "record", "name": "R", "fields": _FIELDS})},
        varint(1) + varint(1) + b"a",
        varint(1) + varint(1),
        "Schema: field t: the value ends inside it, at byte 1",
    ),
    "protobuf": Case(
        {"Message": "t.M"},
        number(1, 5),
        number(1, 5) + b"\x12\x7f",
        "Message: the value ends inside a field, at byte 2",
    ),
}


def test_every_format_has_a_case() -> None:
    """A new format has to name the record, too."""
    assert {*face.FORMATS} == {*CASES}


@pytest.fixture(params=CASES)
def form(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Case]:
    """A format's name, and its case with the files that it needs."""
    case = CASES[request.param]
    if "Message" in case.options:
        types = 'syntax = "proto2"; package t; message M { required int32 id = 1; '
        file = tmp_path / "types.desc"
        file.write_bytes(descriptor_set(types + "repeated string tags = 2; }"))
        case = case._replace(options={**case.options, "Descriptor": str(file)})
    return request.param, case


@pytest.mark.parametrize("more", [{}, LARGE])
@pytest.mark.parametrize(
    ("column", "columns"),
    [("value", "value"), ("value", "offset,value,partition"), ("key", "value,key")],
)
def test_failfast_names_the_record(
    form: tuple[str, Case], column: str, columns: str, more: dict[str, str]
) -> None:
    """The error has the topic, the partition and the offset, although no column has them."""
    name, case = form
    items = [case.good, case.bad, case.good]
    with LittleKafka(1) as kafka:
        kafka.create("t", 2)
        _append(kafka, T0, column, [case.good] * 3)
        _append(kafka, T1, column, items)
        given = {f"{column}{rest}": text for rest, text in case.options.items()}
        reader = query(kafka, **{f"{column}Format": name}, **given, **more, columns=columns)
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
