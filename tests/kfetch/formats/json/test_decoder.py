"""The compiled decoder and the reference agree, and the decoder's own promises."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import OptionError
from kfetch.formats.columns import node_table, struct_column
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.decoded import Problem
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.json.times import Zones
from tests.examples import examples
from tests.kfetch.formats.json import documents
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.json.rows import column_of
from tests.kfetch.formats.vectors import decode, decoder, find_zone

_SIMPLE = "id BIGINT, name STRING"


def _exact(using: JsonDecoder, items: list[bytes]) -> tuple[list[object], list[int]]:
    decoded = [using.reference_row(item) for item in items]
    corrupt = [i for i, item in enumerate(decoded) if item.problem]
    return plain(column_of([item.row for item in decoded], using.schema)), corrupt


def _decoded(using: JsonDecoder, items: list[bytes | None]) -> tuple[list[object], list[int]]:
    result = decode(using, items)
    result.values.validate(full=True)
    return plain(result.values), result.corrupt.tolist()


@examples(10)
@given(seed=st.integers(0, 1 << 32), oddity=st.sampled_from([0.0, 0.01, 0.05]))
def test_both_decoders_agree(seed: int, oddity: float) -> None:
    """For random schemas and documents, the compiled loops give the rows of ``reference``."""
    rng = Random(seed)
    kind = documents.schema(rng)
    zone = rng.choice([0, -34_200, find_zone("America/New_York")])
    using = decoder(documents.ddl(kind), Zones(zone or 0, find_zone))
    items = [documents.document(rng, kind, oddity) for _ in range(10)]
    assert _exact(using, items) == _decoded(using, list(items))


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["r", "e", "f", "g"]))
def test_floats_are_the_nearest(value: float, form: str) -> None:
    """A decimal number becomes the nearest float64 and the nearest float32."""
    text = repr(value) if form == "r" else format(value, f".17{form}")
    if len(text) > 900:
        return
    using = decoder("d DOUBLE, f FLOAT")
    document = f'{{"d":{text},"f":{text}}}'.encode()
    assert _exact(using, [document]) == _decoded(using, [document])
    assert decode(using, [document]).values.field("d")[0].as_py() == float(text)


@given(st.text(), st.booleans())
def test_text_comes_back(text: str, ascii_only: bool) -> None:
    """A string arrives as it was written, escaped or not, at the end of the data too."""
    document = json.dumps({"name": text}, ensure_ascii=ascii_only)
    if any("\ud800" <= c <= "\udfff" for c in text):
        return
    result = decode(decoder(_SIMPLE), [document.encode()])
    assert [text] == result.values.field("name").to_pylist()


def test_null_and_empty_values_are_null() -> None:
    """A tombstone is null, as is an empty value. Neither is corrupt."""
    rows, corrupt = _decoded(decoder(_SIMPLE), [None, b"", b" \n", b"{}", None])
    assert [None, None, None, {"id": None, "name": None}, None] == rows
    assert not corrupt


def test_no_records_give_an_empty_column() -> None:
    """No records are a column of the schema's type."""
    empty = np.array([], np.int64)
    result = decoder(_SIMPLE).decode(b"", empty, empty.astype(np.int32))
    assert pa.struct([("id", pa.int64()), ("name", pa.string())]) == result.values.type
    assert 0 == len(result.values)


def test_positions_point_anywhere() -> None:
    """Values may overlap, stand in any order, and have other bytes between them."""
    data = b'xx{"id":1}yy{"id":2}' + bytes(100)
    result = decoder(_SIMPLE).decode(data, np.array([12, 2, 2]), np.array([8, 8, 4], np.int32))
    assert [2, 1, None] == result.values.field("id").to_pylist()
    assert [2] == result.corrupt.tolist()


def test_bytes_behind_a_value_do_not_count() -> None:
    """A value that ends too early is corrupt, although the next bytes would complete it."""
    data = b'{"id":12345}' + bytes(100)
    lengths = np.arange(1, 13, dtype=np.int32)
    result = decoder(_SIMPLE).decode(data, np.zeros(12, np.int64), lengths)
    assert [None] * 11 + [12345] == result.values.field("id").to_pylist()
    assert list(range(11)) == result.corrupt.tolist()


def test_buffers_grow() -> None:
    """Long lists, much text and large maps in few records fit."""
    schema = "l ARRAY<STRUCT<a: INT, s: STRING>>, m MAP<STRING, ARRAY<BOOLEAN>>, s STRING"
    items = ",".join(f'{{"a":{i},"s":"{"x" * (i % 50)}"}}' for i in range(700))
    pairs = ",".join(f'"key {i}":[true,null,false]' for i in range(700))
    document = f'{{"l":[{items}],"m":{{{pairs}}},"s":"short"}}'.encode()
    using = decoder(schema)
    assert _exact(using, [document] * 3) == _decoded(using, [document, document, document])


def test_a_value_that_is_too_large_is_the_only_one_that_is_null(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first record needs more than the limit, which is 128 MiB, and 1 MiB here. Records that
    Python decides have their rows."""
    assert 128 << 20 == struct_column.value_limit(0)
    monkeypatch.setattr(struct_column, "_VALUE_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(struct_column, "_UNFOLDED_MAX", 1)
    fields = ",".join(f"f{i}: BIGINT" for i in range(1000))
    too_large = b'{"id":0,"a":[' + b",".join([b"{}"] * 133) + b"]}"
    plain_ones = [b'{"id":%d,"s":"x"}' % number for number in range(1, 7)]
    items = [too_large, *plain_ones, b"{'id':7}", b'{"id":8}', b"{'id':9}"]

    result = decode(decoder(f"id INT, s STRING, a ARRAY<STRUCT<{fields}>>"), items)

    assert [None, *range(1, 10)] == result.values.field("id").to_pylist()
    assert [0] == result.corrupt.tolist()


@pytest.mark.parametrize(
    ("name", "items"),
    [
        ('a"b', [b'{"a"b":1}', b'{"a\\"b":1}', b'{"x":2,"a"b":1}']),
        ("a\\nb", [b'{"a\\nb":1}', b'{"a\\\\nb":1}', b'{"a\\u005cnb":1}']),
        ("a\nb", [b'{"a\nb":1}', b'{"a\\nb":1}']),
        ("", [b'{"":1}', b'{"x":1,"":2}', b'{"":1,"":2}']),
    ],
)
def test_names_that_json_escapes(name: str, items: list[bytes]) -> None:
    """A field whose name has a quote, a backslash or a control is found by its escaped form."""
    field = {"name": name, "type": "integer", "nullable": True, "metadata": {}}
    using = decoder(json.dumps({"type": "struct", "fields": [field]}))
    assert _exact(using, items) == _decoded(using, list(items))


@pytest.mark.parametrize(
    ("ddl", "size"),
    [
        ("a BIGINT", 9),  # 8 bytes, and a bit for each of the field and the struct
        (", ".join(f"a{n} DOUBLE" for n in range(40)), 40 * 8 + 6),
        ("a STRING", 5),  # an offset, and two bits
        ("a ARRAY<INT>", 9),
    ],
)
def test_size_of_rows(ddl: str, size: int) -> None:
    """A decoder says how much memory a row takes beside its text, so that parts stay small."""
    assert size == decoder(ddl).row_bytes


def test_keys_of_maps_have_no_validity_bitmap() -> None:
    """Keys are never null. Arrow before version 26 aborts the process for keys with a bitmap."""
    result = decode(decoder("m MAP<STRING, MAP<STRING, INT>>"), [b'{"m":{"a":{"b":1}}}'])
    outer: Any = result.values.field("m")
    assert all(column.keys.buffers()[0] is None for column in (outer, outer.items))


def test_a_field_that_does_not_fit_is_null_and_the_rest_stays() -> None:
    """Spark's partial results: the other fields keep their values, and the record is corrupt."""
    rows, corrupt = _decoded(decoder(_SIMPLE), [b'{"id":"x","name":"n"}', b'{"id":1,"name":"n"}'])
    assert [{"id": None, "name": "n"}, {"id": 1, "name": "n"}] == rows
    assert [0] == corrupt


def test_the_corrupt_column_has_the_value_as_it_was() -> None:
    """It is null for good records, and has the place that the schema gives it."""
    using = decoder("_corrupt_record STRING, id INT")
    result = decode(using, [b'{"id":1}', b'{"id":1.5}', None, b"no \xff json"])
    assert ["_corrupt_record", "id"] == [field.name for field in result.values.type]
    assert [
        {"_corrupt_record": None, "id": 1},
        {"_corrupt_record": '{"id":1.5}', "id": None},
        None,
        {"_corrupt_record": {"bytes": b"no \xff json".hex()}, "id": None},
    ] == plain(result.values)


def test_the_corrupt_column_must_be_text() -> None:
    """Spark refuses another type for it, and so does kfetch."""
    with pytest.raises(OptionError, match="gives the field _corrupt_record the type INT"):
        decoder("id INT, _corrupt_record INT")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b'{"id":1}', None),
        (b'{"id":1.5}', Problem("field id is no BIGINT", 8)),
        (b'{"name":"\xc3\xa9","id":"x"}', Problem("field id is no BIGINT", 20)),
        (b'{"id":1', Problem("the document ends inside an object", 7)),
        (b'{"id":01}', Problem("a number must not start with 0", 6)),
        (b"[1]", Problem("the document is an array", 0)),
        (b'{"id":9223372036854775808}',
         Problem("field id is out of range", 24)),
    ],
)  # fmt: skip
def test_a_problem_says_what_and_where(document: bytes, problem: Problem | None) -> None:
    """The reason names the field or the grammar, and the byte in the value."""
    assert problem == decoder(_SIMPLE).problem(document)


_LONG_NAME = "n" * 24_000


@pytest.mark.parametrize(
    ("schema", "document", "what"),
    [
        ("m MAP<STRING, INT>", '{"m":{"secret@mail":"x"}}', "field m.value is no INT"),
        ("m MAP<STRING, INT>", '{"m":{"secret@mail":""}}',
         "field m.value is an empty string, no INT"),
        ("m MAP<STRING, INT>", '{"m":{"secret@mail":5000000000}}', "field m.value is out of range"),
        ("m MAP<STRING, STRUCT<a: INT>>", '{"m":{"secret@mail":{"x":1,"a":"x"}}}',
         "field m.value.a is no INT"),
        ("m MAP<STRING, INT>", f'{{"m":{{"{_LONG_NAME}":"x"}}}}', "field m.value is no INT"),
        ("l ARRAY<ARRAY<INT>>, n INT", '{"l":[[1],["x"]],"n":1.5}',
         "field l.element.element is no INT"),
        ("s STRUCT<a: ARRAY<INT>>, n INT", '{"s":{"a":[1]},"n":1.5}', "field n is no INT"),
        (f"{_LONG_NAME} INT", f'{{"{_LONG_NAME}":"x"}}', f"field {'n' * 99}… is no INT"),
        ("n INT", '{"n":"secret@mail"}', "field n is no INT"),
        ("n DECIMAL(5,2)", '{"n":"secret@mail"}', "field n is no DECIMAL"),
        ("n DECIMAL(5,2)", '{"n":1000}', "field n has too many digits for DECIMAL(5,2)"),
        ("n DECIMAL(5,2)", '{"n":-999.995}', "field n has too many digits for DECIMAL(5,2)"),
        ("n DECIMAL(5,2)", '{"n":"1,000"}', "field n has too many digits for DECIMAL(5,2)"),
        ("n DECIMAL(38,0)", '{"n":1e99}', "field n has too many digits for DECIMAL(38,0)"),
        ("n INT", '{"n":secret}', "a word without quotes is no JSON value"),
        ("n INT", '{"n":true_secret}', "a word without quotes is no JSON value"),
        ("n INT", '{"n":nul', "a word without quotes is no JSON value"),
        ("n INT", '{"n":%}', "'%' is no value"),
    ],
)  # fmt: skip
def test_a_problem_shows_no_data(schema: str, document: str, what: str) -> None:
    """It names the place in the schema, cut to 100 characters, and no key of a map or word."""
    problem = decoder(schema).problem(document.encode())
    assert problem is not None
    assert what == problem.what


def test_errors_of_the_loops_have_no_data() -> None:
    """If the loops refuse a row that Python decoded, the error does not show the row."""
    using = JsonDecoder(parse_schema(_SIMPLE), lambda *_: node_table.DOUBTFUL)
    with pytest.raises(AssertionError, match=r"^the loops refuse the row of record 0$"):
        decode(using, [b'{"id":1,"name":"secret"}'])
