"""The fields of a value that its schema lacks, in each format."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.formats.avro.matching import unknown_in_avro
from kfetch.formats.avro.schema import parse_avro
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.json.infer import unknown_in_json
from kfetch.formats.protobuf.descriptors import read_descriptors
from kfetch.formats.protobuf.schema import message_tree, unknown_in_protobuf
from tests.kfetch.formats.json import documents
from tests.kfetch.formats.protobuf.proto_text import descriptor_set

SCHEMA = parse_schema("a INT, s STRUCT<x: INT>, l ARRAY<STRUCT<x: INT>>", option="valueSchema")


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (b'{"a":1,"s":{"x":1},"l":[{"x":1}]}', []),
        (b'{"b":1,"s":{"y":{"z":1}},"l":[{"x":1},{"w":2}]}', ["b", "l.w", "s.y"]),
        (b'{"b":null}', ["b"]),
        (b'{"s":7,"a":{"c":1}}', []),
        (b'{"b":', []),
        (b"[1]", []),
        (b"", []),
    ],
)
def test_json(document: bytes, names: list[str]) -> None:
    """Names at any level are found. A field of another type is no unknown field."""
    assert names == sorted(unknown_in_json(document, SCHEMA))


@given(seed=st.integers(0, 1 << 32), oddity=st.sampled_from([0.0, 0.1]))
def test_json_of_any_document(seed: int, oddity: float) -> None:
    """Odd and damaged documents never raise. Of good ones, only the unknown field is found."""
    rng = Random(seed)
    kind = documents.schema(rng)
    document = documents.document(rng, kind, oddity)
    found = {name.rpartition(".")[2] for name in unknown_in_json(document, kind)}
    assert oddity or found <= {"unknown"}
    assert all(isinstance(name, str) for name in unknown_in_json(document, SCHEMA))


def _record(*fields: str, name: str = "R") -> str:
    return f'{{"type":"record","name":"{name}","fields":[{",".join(fields)}]}}'


def _field(name: str, kind: str) -> str:
    return f'{{"name":"{name}","type":{kind}}}'


def test_avro() -> None:
    """Fields inside records, unions, arrays and maps are found."""
    x, y = _field("x", '"int"'), _field("y", '"int"')
    inner, less = _record(x, y, name="N"), _record(x, name="N")
    shapes = ('["null",%s]', '{"type":"array","items":%s}', '{"type":"map","values":%s}', "%s")
    for shape in shapes:
        writer = _record(_field("a", '"int"'), _field("n", shape % inner), _field("b", '"int"'))
        reader = _record(_field("n", shape % less))
        found = unknown_in_avro(parse_avro(writer), parse_avro(reader))
        assert ["a", "b", "n.y"] == sorted(found)


TREE = message_tree(
    read_descriptors(
        descriptor_set(
            """
            syntax = "proto3";
            package shop;
            message Item { int32 x = 1; }
            message Order { int32 id = 1; Item item = 2; repeated Item items = 3; }
            """
        )
    ),
    "shop.Order",
)


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (b"\x08\x01\x12\x02\x08\x01", []),
        (b"\x38\x01" + b"\x41" + bytes(8) + b"\x4d" + bytes(4), ["#7", "#8", "#9"]),
        (b"\x12\x04\x08\x01\x10\x05\x1a\x02\x18\x01", ["item.#2", "items.#3"]),
        (b"\x52\x05hello\x08\x01", ["#10"]),
        (b"\x3b\x08\x01\x3c\x40\x01", []),  # a group ends the walk
        (b"\x52\x7f\x00", []),
        (b"\xff" * 20, []),
    ],
)
def test_protobuf(message: bytes, names: list[str]) -> None:
    """Fields are known by their numbers, at any level. The walk ends at damage."""
    assert names == sorted(set(unknown_in_protobuf(message, TREE)))


@given(st.binary(max_size=40))
def test_protobuf_of_any_bytes(message: bytes) -> None:
    """Damaged bytes never raise, and the walk ends."""
    assert all("#" in name for name in unknown_in_protobuf(message, TREE))
