"""The Avro decoder: fastavro's values, damaged records, memory, and sentences about mistakes."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import KfetchError, NotBuilt, OptionError
from kfetch.formats.avro import instructions as ops
from kfetch.formats.avro.decoder import reader_type
from kfetch.formats.columns import decoded, node_table
from kfetch.formats.columns.types import Kind
from tests.examples import examples
from tests.kfetch.formats.avro.cases import decode, decoder
from tests.kfetch.formats.avro.records import damaged, evolved, number, record, schema
from tests.kfetch.formats.guarded import GuardedColumn, GuardedMemory
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.work import lines_run

SEEDS = st.integers(0, 1 << 32)


def one(kind: Any, **more: Any) -> dict[str, Any]:
    """Returns a record with one field, named a."""
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind} | more]}


_FIVE = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": ["null", "double"]},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "raw", "type": "bytes"},
    ],
}
_ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "customer": st.text(max_size=80),
        "amount": st.none() | st.floats(allow_nan=False),
        "tags": st.dictionaries(
            st.text(max_size=5), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5), max_size=4
        ),
        "raw": st.binary(max_size=90),
    }
)


@examples(10)
@given(st.lists(_ROWS, max_size=20))
def test_rows_are_what_fastavro_wrote(rows: list[dict[str, Any]]) -> None:
    """Another library writes the records, and all values come back."""
    parsed, items = fastavro.parse_schema(_FIVE), []
    for row in rows:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, row)
        items.append(buffer.getvalue())
    result = decode(decoder(_FIVE), [*items])
    result.values.validate(full=True)
    expected = [row | {"tags": list(row["tags"].items())} for row in rows]
    assert expected == result.values.to_pylist()
    assert not len(result.corrupt)


@given(SEEDS)
def test_whole_records_are_never_corrupt(seed: int) -> None:
    """Every record of a schema can be decoded with it."""
    rng = Random(seed)
    writer = schema(rng)
    assert not len(decode(decoder(writer), [record(rng, writer) for _ in range(10)]).corrupt)


def _guarded(using: Any, items: list[bytes], gap: int) -> Any:
    """Decodes records in guarded memory, with ``gap`` bytes behind each, into guarded columns."""
    memory = GuardedMemory(sum(map(len, items)) + gap * len(items), alignment=1)
    memory.bytes[:] = np.frombuffer(b"".join(item + b"\x02" * gap for item in items), np.uint8)
    lengths = np.array([len(item) for item in items], np.int32)
    positions = np.cumsum(lengths + gap, dtype=np.int64) - lengths - gap
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoded, "StructColumn", GuardedColumn)
        return using.decode(memoryview(memory.bytes), positions, lengths)


@given(SEEDS, st.sampled_from([0, 1, 17]))
def test_no_byte_outside_is_touched(seed: int, gap: int) -> None:
    """Records that are whole, cut or damaged give the same rows whatever stands behind them."""
    rng = Random(seed)
    writer = schema(rng)
    reader = evolved(rng, writer) if rng.random() < 0.5 else None
    try:
        using = decoder(writer, reader)
    except OptionError:
        return
    items = [record(rng, writer) for _ in range(6)]
    items = [item if rng.random() < 0.4 else damaged(rng, item) for item in items]
    expected = [plain(decode(using, [item]).values)[0] for item in items]
    result = _guarded(using, items, gap)
    result.values.validate()
    assert expected == plain(result.values)
    assert result.corrupt.tolist() == [i for i, item in enumerate(items) if using.problem(item)]


def test_buffers_grow_in_time() -> None:
    """Symbols, defaults and lists that outgrow their buffers stay inside them."""
    names = ["x" * 300, "y"]
    kind = {"type": "array", "items": {"type": "enum", "name": "E", "symbols": names}}
    reader = one(kind)
    reader["fields"].append({"name": "d", "type": "string", "default": "z" * 5000})
    item = number(900) + bytes(900) + b"\0"
    expected = {"a": [names[0]] * 900, "d": "z" * 5000}
    assert [expected] * 3 == _guarded(decoder(one(kind), reader), [item] * 3, 0).values.to_pylist()


@pytest.mark.parametrize(
    ("kind", "item", "sentence", "at"),
    [
        ("int", b"", "field a: the value ends inside it", 0),
        ("string", b"\x08abc", "field a: the value ends inside it", 0),
        ("long", b"\xff" * 10, "field a: its number is too long", 0),
        ("string", b"\x01", "field a: its length is negative", 0),
        (["null", "int"], b"\x04", "field a: its union has no such branch", 0),
        ({"type": "array", "items": "string"}, b"\x04\x02x\x09", "field a: its length", 3),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            b"\x02",
            "field a: its enum has no such symbol",
            0,
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            number(2**62),
            "field a: its time is too far from 1970",
            0,
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            b"\x02\x64",
            "field a: its decimal has no digits or too many",
            0,
        ),
    ],
)
def test_a_problem_names_the_field_and_the_byte(
    kind: Any, item: bytes, sentence: str, at: int
) -> None:
    """The error of FAILFAST says why a value does not fit, and where."""
    problem = decoder(one(kind)).problem(item)
    assert problem is not None
    assert problem.what.startswith(sentence)
    assert at == problem.at


def test_elements_without_bytes_have_a_limit() -> None:
    """A few bytes can't make millions of rows."""
    using = decoder(one({"type": "array", "items": {"type": "fixed", "name": "X", "size": 0}}))
    few, many = number(ops.EMPTY_MAX) + b"\0", number(2**60) + b"\0"
    assert using.problem(few) is None
    assert "elements without bytes" in str(using.problem(many))


def test_corrupt_records_are_structs_of_nulls() -> None:
    """As with from_avro, the struct of a corrupt record is there, and null values are null."""
    result = decode(decoder(one("int")), [b"\x02", b"", None, b"\x80"])
    assert [{"a": 1}, {"a": None}, None, {"a": None}] == result.values.to_pylist()
    assert [1, 3] == result.corrupt.tolist()


_RECURSIVE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}


@pytest.mark.parametrize(
    ("writer", "error", "sentence"),
    [
        ("{", OptionError, "valueSchema is no Avro schema: it is no JSON"),
        ('"strin"', OptionError, "valueSchema is no Avro schema: strin is no type"),
        ({"type": "record", "name": "R"}, OptionError, "the record R has no fields"),
        (one(["int", "int"]), OptionError, "a union has int twice"),
        (one({"type": "array"}), OptionError, "a type array has no items"),
        (_RECURSIVE, NotBuilt, "valueSchema has the type Node inside itself"),
        ("[]", OptionError, "a union is empty"),
        ('"int"', NotBuilt, "valueSchema is of type int, and kfetch decodes only records"),
        (one("null"), NotBuilt, "a type null without another one"),
        (
            one({"type": "bytes", "logicalType": "decimal", "precision": 40}),
            OptionError,
            "a decimal of 40 digits, and Spark has 38 at most",
        ),
        ("[" * 100 + "]" * 100, OptionError, "nested deeper than 64"),
        (
            "schemas/w.avsc",
            OptionError,
            "valueSchema looks like the path of a file (schemas/w.avsc), and it must be the text",
        ),
    ],
)
def test_mistakes_in_schemas(writer: Any, error: type[KfetchError], sentence: str) -> None:
    """A wrong schema is one clear error before the query starts."""
    text = writer if isinstance(writer, str) else json.dumps(writer)
    with pytest.raises(error) as mistake:
        reader_type(text)
    assert sentence in mistake.value.message


@pytest.mark.parametrize(
    ("writer", "reader", "sentence"),
    [
        (one("int"), one("string"), "field a: string can't be read from int: correct one of the s"),
        (
            one("int"),
            {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]},
            "record R has no field b, and the reader's has no default: give the reader's field a d",
        ),
        (
            {"type": "record", "name": "R", "fields": []},
            one(
                {"type": "bytes", "logicalType": "decimal", "precision": 2}, default="\u0001\u0000"
            ),
            "the default of the field a does not fit its type: it is no decimal of 2 digits: corr",
        ),
        (one("int"), one("int", aliases=["b"]) | {"fields": []}, ""),
        (one("int"), one("string", default=1), "field a: string can't be read from int"),
    ],
)
def test_schemas_that_never_fit_are_refused(writer: Any, reader: Any, sentence: str) -> None:
    """A pair that no record can fit is an error before the query starts."""
    if not sentence:
        assert not decode(decoder(writer, reader), [b"\x02"]).corrupt.tolist()
        return
    with pytest.raises(OptionError) as mistake:
        decoder(writer, reader)
    assert sentence in mistake.value.message


def test_a_bomb_of_named_types_is_refused() -> None:
    """Names that are used twice at each of many levels can't make billions of columns."""
    kind: Any = "int"
    for level in range(40):
        first = {"name": "a", "type": kind}
        second = {"name": "b", "type": f"R{level - 1}" if level else "int"}
        kind = {"type": "record", "name": f"R{level}", "fields": [first, second]}
    with pytest.raises(OptionError, match="more than 20000 types"):
        reader_type(json.dumps(kind))


def test_the_work_for_a_schema_is_that_of_its_fields() -> None:
    """Records with four times the fields cost four times the work, and not sixteen times."""

    def work(count: int) -> int:
        names = [(f"f{i}", "int") for i in range(count)]
        writer, reader = fields(*names), fields(*reversed(names))
        return lines_run(lambda: decoder(writer, reader))

    assert work(400) <= 4 * work(100)


def test_the_loops_know_the_kinds() -> None:
    """DOUBLE and STRUCT mean the same to the loops and to the types."""
    assert (Kind.DOUBLE, Kind.STRUCT) == (node_table.DOUBLE, node_table.STRUCT)


def fields(*given: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """Returns a record named R with fields of a name, a type and more properties."""
    made = [{"name": name, "type": kind} | (dict(*rest)) for name, kind, *rest in given]
    return {"type": "record", "name": "R", "fields": made} | more


_MEMBERS = one(
    [
        "null",
        fields(("i", "int"), name="V1"),
        fields(("i", "int"), name="V2", aliases=["V1"]),
    ]
)
_SWAPPED = fields(("a", "int", {"aliases": ["b"]}), ("b", "int", {"aliases": ["a"]}))
_PLAIN = fields(("a", "int"), ("b", "int"))
_CHAINED = fields(("c", "int", {"aliases": ["a"]}), ("a", "int", {"aliases": ["b"]}))
_COLLIDING = fields(("name", "int"), ("full_name", "int", {"aliases": ["name"]}))


@pytest.mark.parametrize(
    ("writer", "reader", "data", "row"),
    [
        (_MEMBERS, None, b"\2\6", {"a": {"member0": {"i": 3}, "member1": None}}),
        (_MEMBERS, _MEMBERS, b"\4\6", {"a": {"member0": None, "member1": {"i": 3}}}),
        (_SWAPPED, None, b"\2\4", {"a": 1, "b": 2}),
        (_SWAPPED, {**_SWAPPED, "doc": "the same"}, b"\2\4", {"a": 1, "b": 2}),
        (_COLLIDING, None, b"\2\4", {"name": 1, "full_name": 2}),
        (_PLAIN, {**_SWAPPED, "x": 1}, b"\2\4", {"a": 1, "b": 2}),
        (_PLAIN, _CHAINED, b"\2\4", {"c": 1, "a": 2}),
    ],
)
def test_aliases_count_only_between_different_schemas(
    writer: Any, reader: Any, data: bytes, row: Any
) -> None:
    """Java applies no aliases if both schemas are equal, whatever their aliases and documentation.
    Otherwise it applies them twice. Apache Avro 1.12.1 in Java gave the rows."""
    assert [row] == decode(decoder(writer, reader), [data]).values.to_pylist()


_E = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
_Q = fields(("c", _E), ("d", "E"), name="Q")


@pytest.mark.parametrize(
    ("writer", "data", "row"),
    [
        (fields(("a", "E"), ("b", _E)), b"\2\0", {"a": "B", "b": "A"}),
        (fields(("a", "E"), ("b", _E), namespace="n"), b"\2\0", {"a": "B", "b": "A"}),
        (
            fields(("a", "m.E"), ("b", _E | {"namespace": "m"}), namespace="n"),
            b"\2\0",
            {"a": "B", "b": "A"},
        ),
        (
            fields(("a", "Q"), ("b", _Q)),
            b"\0\2\2\0",
            {"a": {"c": "A", "d": "B"}, "b": {"c": "B", "d": "A"}},
        ),
        (
            fields(("a", {"type": "array", "items": "E"}), ("b", _E)),
            b"\2\2\0\0",
            {"a": ["B"], "b": "A"},
        ),
    ],
)
def test_names_may_come_before_their_types(writer: Any, data: bytes, row: Any) -> None:
    """A field may name a type that stands further on, as in Avro 1.12. Java gave the rows."""
    assert [row] == decode(decoder(writer), [data]).values.to_pylist()


def test_a_later_type_of_another_namespace_is_none() -> None:
    """A name without a namespace means the type of its own namespace, if that stands further on."""
    writer = fields(("a", "E"), ("b", _E | {"namespace": "m"}), namespace="n")
    with pytest.raises(OptionError, match=r"E is no type"):
        decoder(writer)


@pytest.mark.parametrize(
    ("text", "value"),
    [("NaN", "nan"), ("-Infinity", "-inf"), (" 1.5 ", "1.5"), ("1.5f", "1.5"), ("0x1p3", "8.0")],
)
@pytest.mark.parametrize("kind", ["float", "double", {"type": "double", "x": 1}])
def test_defaults_of_floating_point_may_be_text(kind: Any, text: str, value: str) -> None:
    """A default may be a text that Java's Double.valueOf reads."""
    reader = fields(("z", "int"), ("a", kind, {"default": text}))
    (row,) = decode(decoder(fields(("z", "int")), reader), [b"\2"]).values.to_pylist()

    assert value == str(row["a"])


@pytest.mark.parametrize("text", ["nan", "inf", "", "1_0", "INF", "\u0661", "1.5g"])
def test_other_texts_are_no_defaults(text: str) -> None:
    """A text that Java does not read as a number is refused, with the field's name."""
    reader = fields(("z", "int"), ("a", "double", {"default": text}))
    with pytest.raises(OptionError, match="the default of the field a is no number"):
        decoder(fields(("z", "int")), reader)


@pytest.mark.parametrize(
    ("writer", "reader", "data", "what"),
    [
        (one(["null", "string"]), one("string"), b"\0", "string can't be read from null"),
        (one(["int", "string"]), one("int"), b"\2\2x", "int can't be read from string"),
        (one(_E), one(_E | {"symbols": ["A"]}), b"\2", "the reader's enum lacks the symbol"),
    ],
)
def test_a_writer_whose_schema_allows_more(
    writer: Any, reader: Any, data: bytes, what: str
) -> None:
    """Such a record is good, so its reason is not one of damage. Other records fit."""
    using = decoder(writer, reader)
    problem = using.problem(data)

    assert problem is not None
    begin = "field a: the writer's schema allows more than the reader's: "
    assert problem.what.startswith(begin + what)
