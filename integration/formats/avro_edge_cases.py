"""Edge cases of Avro: records and pairs of schemas. ``avro_record`` asks Spark about them."""

from __future__ import annotations

import struct
from random import Random
from typing import Any, NamedTuple

from tests.kfetch.formats.avro.records import damaged, evolved, number, record, schema

__all__ = ["GROUPS", "Group"]


class Group(NamedTuple):
    """Records of one pair of schemas."""

    name: str
    writer: Any
    reader: Any
    documents: list[bytes | None]


def _one(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind} | more]}


def _two(first: Any, second: Any, name: str = "R") -> dict[str, Any]:
    fields = [{"name": "a", "type": first}, {"name": "b", "type": second}]
    return {"type": "record", "name": name, "fields": fields}


def _logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return _logical("bytes", "decimal", precision=precision, scale=scale)


def _text(data: bytes) -> bytes:
    return number(len(data)) + data


def _enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def _fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


_NUMBERS: list[bytes | None] = [
    None, b"", b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\x80\x00", b"\x80\x01", b"\xff\x01",
    b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x1f", b"\xff" * 4,
    b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x8f\x00", b"\x80" * 5 + b"\x00",
    b"\xff" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff" * 9 + b"\x7f", b"\xff" * 10,
    b"\x80" * 9 + b"\x00", b"\xff" * 9, b"\x02\x02\x02", number(2**31), number(-(2**31)),
    number(2**53 + 1), number(16_777_217),
]  # fmt: skip
_LENGTHS: list[bytes | None] = [
    b"\x00", b"\x02a", b"\x04a", b"\x01", b"\x03aa", _text(b"\xff\xfe"), _text("äß€😀".encode()),
    _text(b"a\0b"), _text(b"x" * 300), number(2**31), number(2**62), number(2**63 - 1), b"", None,
]  # fmt: skip
_DECIMALS = [
    _text((value).to_bytes(size, "big", signed=True))
    for value in (0, 1, -1, 99, 100, -100, 99_999, 100_000, 10**18 - 1, 10**18, 10**19 - 1, 10**19,
                  10**38 - 1, 10**38, -(10**38), 2**127, 2**64 + 5, -(2**64) + 5, 2**200 + 7)
    for size in (1, 3, 8, 9, 16, 17, 30)
    if -(2 ** (8 * size - 1)) <= value < 2 ** (8 * size - 1)
]  # fmt: skip
_LISTS: list[bytes | None] = [
    b"\x00", b"\x02\x02\x00", b"\x04\x02\x04\x00", b"\x01\x02\x02\x00", b"\x03\x00\x02\x04\x00",
    b"\x01\x7f\x02\x00", b"\x02\x02\x02\x04\x00", b"\x02\x02", b"\x04\x02\x00",
    b"\xff" * 9 + b"\x01",
    b"\x03\x04\x02\x04\x02\x06\x00", b"\x01\x01\x02\x00", number(2000) + b"\x02", b"",
]  # fmt: skip
_TAIL = b"\x0e"


def _groups() -> list[Group]:
    tail = [None if item is None else item + _TAIL for item in _LISTS]
    numbers = [_one("int"), _one("long"), _one(_logical("int", "date")),
               _one(_logical("long", "timestamp-millis")),
               _one(_logical("long", "timestamp-micros")),
               _one(_logical("long", "local-timestamp-millis")), _one(["int", "long"])]  # fmt: skip
    made = [Group(f"numbers {i}", kind, None, _NUMBERS) for i, kind in enumerate(numbers)]
    made += [
        Group(f"promoted {a} {b}", _one(a), _one(b), _NUMBERS)
        for a, b in [("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"),
                     ("long", "double"), ("int", _logical("long", "timestamp-millis"))]
    ]  # fmt: skip
    text = [("string", None), ("bytes", None), ("string", "bytes"), ("bytes", "string"),
            ({"type": "string", "avro.java.string": "String"}, None)]  # fmt: skip
    made += [Group(f"text {i}", _one(a), b and _one(b), _LENGTHS) for i, (a, b) in enumerate(text)]
    made += [
        Group(f"decimal {p} {s}", _one(_decimal(p, s)), None, [*_DECIMALS, b"\x00", b"\x02", b""])
        for p, s in [(5, 2), (18, 0), (19, 19), (38, 10)]
    ]
    fixed = _fixed("X", 9, logicalType="decimal", precision=18, scale=3)
    items: list[bytes | None] = [
        bytes(9),
        b"\xff" * 9,
        b"\0" + b"\x7f" * 8,
        b"\x01" + bytes(8),
        b"a",
    ]
    made.append(Group("decimal fixed", _one(fixed), None, items))
    made.append(Group("fixed", _one(_fixed("X", 3)), None, [b"abc", b"ab", b"", b"abcd"]))
    made.append(Group("booleans", _one("boolean"), None, [b"\0", b"\1", b"\2", b"\xff", b""]))
    floats: list[bytes | None] = [struct.pack("<f", x) for x in (0.0, -0.0, 1e-45, 3.4e38, 0.1)]
    floats += [b"\0\0\xc0\x7f", b"\x01\0\x80\x7f", b"\0\0\x80\xff", b"\0\0\0", b""]
    made += [
        Group(f"float {to}", _one("float"), to and _one(to), floats) for to in (None, "double")
    ]
    made.append(Group("array", _two({"type": "array", "items": "int"}, "int"), None, tail))
    made.append(
        Group("array left out", _two({"type": "array", "items": "int"}, "int"),
              {"type": "record", "name": "R", "fields": [{"name": "b", "type": "int"}]}, tail)
    )  # fmt: skip
    maps: list[bytes | None] = [
        b"\x00", b"\x02\x02k\x02\x00", b"\x04\x02k\x02\x02k\x04\x00", b"\x02\x02k\x02",
        b"\x01\x06\x02k\x02\x00", b"\x02\x00\x02\x00", b"\x02\x01\x02\x00",
    ]  # fmt: skip
    made.append(Group("map", _one({"type": "map", "values": "int"}), None, maps))
    return made + _unions() + _enums() + _records()


def _unions() -> list[Group]:
    items: list[bytes | None] = [b"\0\x02", b"\x02\x04", b"\x02\x02a", b"\x04\x02", b"\x04\x02a",
                                 b"\x06", b"\x01", b"\xff\xff\xff\xff\x0f", b"", b"\0"]  # fmt: skip
    pairs: list[tuple[Any, Any]] = [
        (["null", "int"], None), (["int", "null"], None), (["int", "string"], None),
        (["null", "int", "string"], None), (["int", "null", "string"], None),
        (["int", "long", "null"], None), (["null", "long", "int"], None), (["int"], None),
        (["null", "int"], "int"), ("int", ["null", "int"]), ("int", ["string", "long"]),
        ("int", ["double", "long"]), ("int", ["float", "double"]), ("long", ["float", "double"]),
        (["int", "string"], ["string", "int"]), (["int", "string"], ["long", "bytes"]),
        (["int", "string"], "string"), (["null", "int"], ["null", "string"]),
        (["null", "string"], "bytes"), (["null", "int"], ["null", "long"]),
        (["int", "long"], ["null", "long", "int"]),
        (["int", "string"], ["null", "double", "string"]),
        ("string", ["null", "bytes"]), (["null", "int"], ["int", "null"]),
        (["int", "long"], ["float", "double"]), (["null", "int"], ["double", "long"]),
    ]  # fmt: skip
    return [Group(f"union {a} {b}", _one(a), b and _one(b), items) for a, b in pairs]


def _enums() -> list[Group]:
    items: list[bytes | None] = [b"\0", b"\x02", b"\x04", b"\x06", b"\x01", b"", b"\xff" * 5]
    old = _enum("E", "A", "B", "C")
    pairs: list[tuple[Any, Any]] = [
        (old, None), (old, _enum("E", "C", "A")), (old, _enum("E", "C", "A", default="C")),
        (old, _enum("n.E", "A", "B", "C")), (old, _enum("F", "A", "B", "C")),
        (old, _enum("F", "A", "B", "C", aliases=["E"])), (old, "string"),
        (_enum("E", "A", "B", default="A"), _enum("E", "A", "B")), (old, ["null", old]),
        (old, ["null", _enum("n.E", "A", "B", "C")]),
    ]  # fmt: skip
    return [Group(f"enum {i}", _one(a), b and _one(b), items) for i, (a, b) in enumerate(pairs)]


def _fields(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def _records() -> list[Group]:
    items: list[bytes | None] = [b"\x02\x04", b"\x02", b"", b"\x02\x04\x06", None]
    ints = _two("int", "int")
    renamed = _fields(_field("c", "int", aliases=["a"]), _field("b", "int"))
    readers: list[Any] = [
        _two("int", "int", "S"), _fields(_field("b", "int"), _field("a", "int")), renamed,
        {**renamed, "name": "S"}, {**renamed, "name": "S", "aliases": ["R"]},
        _fields(_field("b", "long")), _fields(_field("c", "int", default=7), _field("a", "int")),
        _fields(_field("c", "string")), _fields(_field("c", ["null", "string"], default=None)),
        _fields(_field("c", ["null", "string"], default="x")),
        _fields(_field("c", ["string", "null"], default="x")),
        _fields(_field("c", _enum("E", "A", "B"), default="B")),
        _fields(_field("c", _fixed("X", 2), default="\u00ff\u0001")),
        _fields(_field("c", _fixed("X", 4), default="a")),
        _fields(_field("c", "bytes", default="\u00ff")), _fields(_field("c", "float", default=0.1)),
        _fields(_field("c", "double", default=3)), _fields(_field("c", "long", default=2**40)),
        _fields(_field("c", {"type": "array", "items": "long"}, default=[1, 2])),
        _fields(_field("c", {"type": "map", "values": "long"}, default={"x": 1})),
        _fields(_field("c", _fields(_field("d", "int", default=5), name="D"), default={})),
        _fields(_field("c", _fields(_field("d", "int"), name="D"), default={"d": 6})),
        _fields(_field("c", _logical("long", "timestamp-millis"), default=1000)),
        _fields(_field("c", ["int", "string"], default="x")),
        _fields(_field("a", "string")),
    ]  # fmt: skip
    made = [Group(f"record {i}", ints, reader, items) for i, reader in enumerate(readers)]
    inner, same = _fields(_field("x", "int"), name="I"), _fields(_field("x", "int"), name="J")
    more = _fields(_field("x", "int"), _field("y", "int", default=1), name="J")
    other = _fields(_field("z", "int"), name="K")
    members: list[bytes | None] = [b"\0\x02", b"\x02\x04", b"\x04\x02"]
    pairs: list[tuple[Any, Any]] = [
        (["null", inner], ["null", same]), ([inner, "string"], [other, same]),
        (inner, [other, more]),
        (inner, ["null", other]), ([inner, other], [other, inner]), ([inner, other], None),
        ([inner, "null"], inner), (inner, same),
    ]  # fmt: skip
    made += [
        Group(f"members {i}", _one(a), b and _one(b), members) for i, (a, b) in enumerate(pairs)
    ]
    return made + _random()


def _random() -> list[Group]:
    made = []
    for seed in range(30):
        rng = Random(seed)
        writer = schema(rng, fields_max=4)
        reader = evolved(rng, writer) if seed % 2 else None
        items = [item for item in (record(rng, writer) for _ in range(8)) if len(item) < 300]
        items += [damaged(rng, item) for item in items[:4]]
        made.append(Group(f"random {seed}", writer, reader, [*items]))
    return made + _aliases() + _forward() + _text_defaults()


def _aliases() -> list[Group]:
    pair: list[bytes | None] = [b"\x02\x04", b"\x02"]
    members = _one([
        "null", _fields(_field("i", "int"), name="V1"),
        _fields(_field("i", "int"), name="V2", aliases=["V1"]),
    ])  # fmt: skip
    swapped = _fields(_field("a", "int", aliases=["b"]), _field("b", "int", aliases=["a"]))
    twice = _fields(_field("name", "int"), _field("full_name", "int", aliases=["name"]))
    chained = _fields(_field("c", "int", aliases=["a"]), _field("a", "int", aliases=["b"]))
    ints = _two("int", "int")
    pairs: list[tuple[Any, Any, list[bytes | None]]] = [
        (members, None, [b"\x02\x06", b"\x04\x06", b"\x00"]), (members, members, [b"\x04\x06"]),
        (members, {**members, "doc": "the same"}, [b"\x02\x06", b"\x04\x06"]),
        (swapped, None, pair), (swapped, {**swapped, "doc": "the same"}, pair),
        (ints, swapped, pair), (ints, {**swapped, "x": 1}, pair), (twice, None, pair),
        (twice, {**twice, "x": 1}, pair), (ints, chained, pair),
    ]  # fmt: skip
    return [Group(f"aliases {i}", *given) for i, given in enumerate(pairs)]


def _forward() -> list[Group]:
    enum = _enum("E", "A", "B")
    inner = _fields(_field("c", enum), _field("d", "E"), name="Q")
    writers = [
        _two("E", enum), {**_two("E", enum), "namespace": "n"}, _two("Q", inner),
        {**_two("m.E", {**enum, "namespace": "m"}), "namespace": "n"},
        _two({"type": "array", "items": "E"}, enum),
    ]  # fmt: skip
    items: list[bytes | None] = [b"\x02\x00", b"\x00\x02\x02\x00", b"\x02\x02\x00\x00", b"\x04\x00"]
    return [Group(f"forward {i}", kind, None, items) for i, kind in enumerate(writers)]


def _text_defaults() -> list[Group]:
    texts = ["NaN", "-Infinity", " 1.5 ", "1.5f", "0x1p3"]  # from_avro raises an error for others
    old = _fields(_field("z", "int"))
    return [
        Group(f"default {kind} {text!r}", old,
              _fields(_field("z", "int"), _field("a", kind, default=text)), [b"\x02"])
        for kind in ("float", "double") for text in texts
    ]  # fmt: skip


GROUPS = _groups()
