"""Descriptor files and the structs that Spark makes of messages."""

from __future__ import annotations

import pytest

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.columns.struct_column import arrow_type
from kfetch.formats.protobuf.decoder import message_type
from kfetch.formats.protobuf.descriptors import read_descriptors
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number, sized

_SCALARS = "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 sfixed64 sint32 sint64"
_TYPES = (
    "double float int64 int64 int32 int64 int32 bool string binary int32 int32 int64 int32 int64"
)


def _type(file: str, name: str = "t.M") -> str:
    shown = str(arrow_type(message_type(descriptor_set(file), name)))
    return shown.removeprefix("struct<").removesuffix(">")


def _names_options_of(column: str, error: OptionError) -> None:
    other = "value" if column == "key" else "key"
    assert error.option in (f"{column}Message", f"{column}Descriptor")
    assert f"{other}Message" not in error.message
    assert f"{other}Descriptor" not in error.message


def _proto3(body: str, more: str = "") -> str:
    return f'syntax = "proto3"; package t; {more} message M {{ {body} }}'


@pytest.mark.parametrize(
    ("kind", "expected"), list(zip(_SCALARS.split(), _TYPES.split(), strict=True))
)
def test_scalars(kind: str, expected: str) -> None:
    """Unsigned types have the signed type of their width, as without upcast.unsigned.ints."""
    assert f"f: {expected}" == _type(_proto3(f"{kind} f = 1;"))
    assert f"f: list<element: {expected} not null>" == _type(_proto3(f"repeated {kind} f = 1;"))


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("E f = 1;", "f: string"),
        ("repeated E f = 1;", "f: list<element: string not null>"),
        ("I f = 1;", "f: struct<x: int32>"),
        ("repeated I f = 1;", "f: list<element: struct<x: int32> not null>"),
        ("google.protobuf.Timestamp f = 1;", "f: timestamp[us, tz=UTC]"),
        ("google.protobuf.Duration f = 1;", "f: duration[us]"),
        ("google.protobuf.Any f = 1;", "f: struct<type_url: string, value: binary>"),
        ("google.protobuf.Int32Value f = 1;", "f: struct<value: int32>"),
        ("Duration f = 1;", "f: duration[us]"),
        ("oneof o { int32 a = 2; string b = 1; }", "a: int32, b: string"),
        ("N f = 1; int32 g = 2; repeated N h = 3;", "g: int32"),
        ("int32 z = 9; int32 a = 1;", "z: int32, a: int32"),
    ],
)
def test_fields(field: str, expected: str) -> None:
    """Messages without fields are dropped. The order is that of the file."""
    more = (
        "enum E { A = 0; } message I { int32 x = 1; } message N { } "
        "message Duration { sint64 seconds = 5; int32 nanos = 2; }"
    )
    assert expected == _type(_proto3(field, more))


@pytest.mark.parametrize(
    ("value", "expected"),
    [("int32", "int32"), ("google.protobuf.Timestamp", "timestamp[us, tz=UTC]")],
)
def test_maps(value: str, expected: str) -> None:
    """Values of maps are never null."""
    kind = arrow_type(message_type(descriptor_set(_proto3(f"map<string, {value}> f = 1;")), "t.M"))
    field = kind.field("f").type
    assert ("string", expected, False) == (
        str(field.key_type), str(field.item_type), field.item_field.nullable
    )  # fmt: skip


def test_required_fields_are_never_null() -> None:
    """Flat columns have no struct that could be null in their place, so they may be null."""
    file = 'syntax = "proto2"; package t; message M { required int32 a = 1; optional int32 b = 2; }'
    assert "a: int32 not null, b: int32" == _type(file)
    flat = arrow_type(message_type(descriptor_set(file), "t.M", nullable=True))
    assert "struct<a: int32, b: int32>" == str(flat)


@pytest.mark.parametrize("name", ["t.M", "M", "t.M.Inner"])
def test_names_of_messages(name: str) -> None:
    """A message at the top level may be named without its package, as in Spark."""
    file = _proto3("int32 a = 1; message Inner { int32 a = 1; }")
    assert "a: int32" == _type(file, name)


@pytest.mark.parametrize(
    ("file", "name", "sentence"),
    [
        (_proto3("int32 a = 1;"), "other", "has no message 'other': set "),
        (_proto3("int32 a = 1;", "message Order { int32 a = 1; }"), "t.Ordr", "has no message 't.Ordr': did you mean t.Order?"),
        (_proto3("M m = 1;"), "t.M", "the message t.M contains itself, in the field t.M.m"),
        (_proto3("repeated I i = 1;", "message I { map<int32, M> m = 1; }"), "t.M", "the message t.M contains itself, in the field t.I.MEntry.value"),
        (_proto3(""), "t.M", "the message t.M has no fields"),
        (_proto3("N n = 1;", "message N { }"), "t.M", "the message t.M has no fields"),
        (_proto3("Missing n = 1;"), "t.M", "has no type t.Missing"),
        (_proto3("Duration f = 1;", "message Duration { int32 seconds = 1; int32 nanos = 2; }"), "t.M", "Spark takes the message t.Duration for a time"),
        ('syntax = "proto2"; package t; message M { optional int32 a = 1 [default = x]; }', "t.M", "the field a has the default"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("column", ["key", "value"])
def test_messages_that_are_refused(file: str, name: str, sentence: str, column: str) -> None:
    """The sentence names the message or the type. Options are those of the column."""
    with pytest.raises(OptionError) as refusal:
        message_type(descriptor_set(file), name, column=column)
    assert sentence in refusal.value.message
    assert not isinstance(refusal.value, NotBuilt)
    _names_options_of(column, refusal.value)


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ('syntax = "proto2"; package t; message M { optional group g = 1; }', "the field t.M.g is a group"),
        ('syntax = "editions"; package t; message M { int32 a = 1; }', "has the syntax editions"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("column", ["key", "value"])
def test_what_is_not_built_says_so(file: str, sentence: str, column: str) -> None:
    """Groups as known fields, and editions, raise NotBuilt."""
    with pytest.raises(NotBuilt, match=sentence) as refusal:
        message_type(descriptor_set(file), "t.M", column=column)
    _names_options_of(column, refusal.value)


def test_the_set_of_messages_is_not_built() -> None:
    """The error names the option of the column's file."""
    file = sized(1, sized(4, sized(1, b"M") + sized(7, number(1, 1))))
    with pytest.raises(NotBuilt, match="message_set_wire_format") as refusal:
        read_descriptors(file, column="key")
    _names_options_of("key", refusal.value)


@pytest.mark.parametrize(("levels", "is_refused"), [(99, False), (102, True), (900, True)])
def test_messages_have_a_depth(levels: int, is_refused: bool) -> None:
    """No value has more than 100 levels, so a struct with more of them is refused."""
    more = "message M0 { int32 a = 1; } " + " ".join(
        f"message M{i} {{ M{i - 1} m = 1; }}" for i in range(1, levels)
    )
    file = descriptor_set(_proto3(f"M{levels - 1} m = 1;", more))
    if not is_refused:
        assert message_type(file, "t.M").names
        return
    with pytest.raises(OptionError, match="more than 100 levels"):
        message_type(file, "t.M")


def test_a_message_that_explodes_is_refused() -> None:
    """Messages that contain others many times have a limit, and the refusal takes no time."""
    more = "message M0 { int32 a = 1; } " + " ".join(
        f"message M{i} {{ {' '.join(f'M{i - 1} f{j} = {j};' for j in range(1, 11))} }}"
        for i in range(1, 9)
    )
    with pytest.raises(OptionError, match="more than 10000 fields"):
        message_type(descriptor_set(_proto3("M8 m = 1;", more)), "t.M")


def _nested(levels: int) -> bytes:
    message = b""
    for _ in range(levels):
        message = sized(3, message)
    return sized(1, sized(4, message))


@pytest.mark.parametrize(
    "data", [b"", b"\x0a", b"\x0a\xff", b"text, no descriptor", b"\xff" * 20, number(1, 1),
             _nested(2000), sized(1, sized(4, sized(1, b"\xff"))), sized(1, sized(5, sized(1, b"E")))],
)  # fmt: skip
@pytest.mark.parametrize("column", ["key", "value"])
def test_damaged_files(data: bytes, column: str) -> None:
    """The error says what the file should be, and how to write it."""
    with pytest.raises(OptionError, match="is no FileDescriptorSet: ") as refusal:
        read_descriptors(data, column=column)
    _names_options_of(column, refusal.value)
    assert "protoc --include_imports" in str(refusal.value)
