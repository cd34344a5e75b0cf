"""Names of Protobuf types as schema registries give them: unresolved, without kinds, by places."""

from __future__ import annotations

import base64

import pytest

from kfetch.formats.columns.struct_column import arrow_type
from kfetch.formats.protobuf.decoder import message_type
from kfetch.formats.protobuf.registry_files import descriptor_set as set_of
from kfetch.formats.protobuf.registry_files import message_at, serialized_file
from tests.kfetch.formats.protobuf.cases import alone
from tests.kfetch.formats.protobuf.proto_text import descriptor_set
from tests.kfetch.formats.protobuf.wire import number, sized


def _message(name: str, *parts: bytes) -> bytes:
    return sized(1, name.encode()) + b"".join(parts)


def _field(name: str, at: int, type_name: str) -> bytes:
    """A field as registries write it: with the type's name as in the file, and without its kind."""
    made = sized(1, name.encode()) + number(3, at) + number(4, 1)
    return sized(2, made + sized(6, type_name.encode()))


def _file(package: str, *parts: bytes) -> bytes:
    return (
        sized(1, b"f.proto") + sized(2, package.encode()) + b"".join(parts) + sized(12, b"proto3")
    )


_TEXT = sized(2, sized(1, b"x") + number(3, 1) + number(4, 1) + number(5, 9))
_NUMBER = sized(2, sized(1, b"n") + number(3, 1) + number(4, 1) + number(5, 5))
_COLOR = sized(1, b"Color") + sized(2, sized(1, b"RED"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Inner", "struct<x: string>"),
        ("M.Inner", "struct<x: string>"),
        (".a.b.M.Inner", "struct<x: string>"),
        ("a.b.M.Inner", "struct<x: string>"),
        ("b.Other", "struct<n: int32>"),
        ("Other", "struct<n: int32>"),
        ("Color", "string"),
        ("google.protobuf.Timestamp", "timestamp[us, tz=UTC]"),
        ("google.protobuf.StringValue", "struct<value: string>"),
    ],
)
def test_names_are_resolved(name: str, expected: str) -> None:
    """Inner scopes come first, as in .proto files. The kind is that of the type of this name."""
    inner = sized(3, _message("Inner", _TEXT))
    whole = _file(
        "a.b",
        sized(4, _message("M", inner, _field("f", 1, name))),
        sized(4, _message("Other", _NUMBER)),
        sized(4, _message("Inner", _NUMBER)),
        sized(5, _COLOR),
    )
    found = arrow_type(message_type(set_of([whole]), "a.b.M"))
    assert expected == str(found.field("f").type)


_FILE = alone(
    descriptor_set(
        """
syntax = "proto3"; package p;
message A { map<string, int32> m = 1; message B { int32 x = 1; } message C { int32 x = 1; } }
message D { int32 x = 1; }
"""
    )
)


@pytest.mark.parametrize(
    ("indexes", "name"),
    [((0,), "p.A"), ((1,), "p.D"), ((0, 0), "p.A.B"), ((0, 1), "p.A.C"), ((2,), ""),
     ((0, 2), ""), ((1, 0), "")],
)  # fmt: skip
def test_messages_by_their_places(indexes: tuple[int, ...], name: str) -> None:
    """The entries of maps do not count, as in Confluent's library for Java."""
    assert name == message_at(_FILE, indexes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (base64.b64encode(_FILE).decode(), _FILE),
        ('syntax = "proto3"; message M { int32 a = 1; }', None),
        ("", None),
        ("AAAA", None),
        ("////", None),
    ],
)
def test_descriptors_in_base64(text: str, expected: bytes | None) -> None:
    """The text of a .proto file is told from descriptors."""
    assert expected == serialized_file(text)
