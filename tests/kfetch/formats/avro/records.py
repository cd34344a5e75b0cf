"""Random Avro schemas, readers' schemas that differ from them, and records in bytes.

The bytes use what the specification allows: lists in several blocks, with and without their sizes.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

__all__ = ["aliased", "damaged", "evolved", "number", "record", "schema", "written"]

_PRIMITIVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]
_LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 0},
    {"type": "bytes", "logicalType": "decimal", "precision": 19, "scale": 19},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
    {"type": "string", "avro.java.string": "String"},
]
_PROMOTED = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"],
             "string": ["bytes"], "bytes": ["string"]}  # fmt: skip
_SYMBOLS = ["RED", "GREEN", "BLUE", "Grün", "X"]


class _Names:
    def __init__(self) -> None:
        self._last = 0

    def next(self, prefix: str) -> str:
        self._last += 1
        return f"{prefix}{self._last}"


def schema(rng: Random, *, fields_max: int = 6) -> dict[str, Any]:
    """Returns a record as the JSON of a schema."""
    return _record(rng, _Names(), 3, fields_max)


def _record(rng: Random, names: _Names, depth: int, fields_max: int = 4) -> dict[str, Any]:
    fields = [
        {"name": names.next("f"), "type": _type(rng, names, depth - 1)}
        for _ in range(rng.randint(1, fields_max))
    ]
    made: dict[str, Any] = {"type": "record", "name": names.next("R"), "fields": fields}
    if rng.random() < 0.3:
        made["namespace"] = rng.choice(["n", "n.m"])
    return made


def _type(rng: Random, names: _Names, depth: int) -> Any:
    choice = rng.random()
    if depth <= 0 or choice < 0.4:
        return rng.choice(_PRIMITIVES)
    if choice < 0.55:
        return copy.deepcopy(rng.choice(_LOGICAL))
    if choice < 0.75:
        return _union(rng, names, depth)
    if choice < 0.82:
        return {"type": "array", "items": _type(rng, names, depth - 1)}
    if choice < 0.88:
        return {"type": "map", "values": _type(rng, names, depth - 1)}
    return _named(rng, names, depth)


def _named(rng: Random, names: _Names, depth: int) -> Any:
    choice = rng.random()
    if choice < 0.4:
        return _record(rng, names, depth)
    if choice < 0.7:
        symbols = rng.sample(_SYMBOLS[:3] + _SYMBOLS[4:], rng.randint(1, 4))
        made: dict[str, Any] = {"type": "enum", "name": names.next("E"), "symbols": symbols}
        if rng.random() < 0.3:
            made["default"] = rng.choice(symbols)
        return made
    made = {"type": "fixed", "name": names.next("X"), "size": rng.choice([0, 1, 2, 4, 8, 12, 17])}
    if rng.random() < 0.5:
        made |= {"logicalType": "decimal", "precision": rng.choice([2, 4, 9, 18, 20, 38]),
                 "scale": rng.choice([0, 1, 2])}  # fmt: skip
    return made


def _union(rng: Random, names: _Names, depth: int) -> list[Any]:
    choice = rng.random()
    if choice < 0.5:
        other = _type(rng, names, depth - 1)
        pair = ["null", other if not isinstance(other, list) else "string"]
        return pair if rng.random() < 0.8 else pair[::-1]
    if choice < 0.7:
        pair = rng.choice([["int", "long"], ["long", "int"], ["float", "double"]])
        return [*pair, "null"] if rng.random() < 0.4 else list(pair)
    kinds: dict[str, Any] = {}
    for _ in range(rng.randint(2, 4)):
        kind = _type(rng, names, depth - 1)
        if not isinstance(kind, list):
            kinds[_branch_name(kind)] = kind
    if rng.random() < 0.4:
        kinds["null"] = "null"
    branches = list(kinds.values())
    rng.shuffle(branches)
    return branches if any(b != "null" for b in branches) else ["null", "int"]


def _branch_name(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    name: str = kind.get("name") or kind["type"]
    return name


def evolved(rng: Random, writer: Any) -> Any:
    """Returns a schema for a reader that knows some things of the writer's, and others not."""
    kind = copy.deepcopy(writer)
    return _evolve(rng, kind, _Names2(rng))


def aliased(rng: Random, kind: Any) -> Any:
    """Returns a schema in which fields and named types have each other's names as aliases."""
    made = copy.deepcopy(kind)
    named = list(_named_types(made))
    for item in named:
        others = [other["name"] for other in named if other["type"] == item["type"]]
        if rng.random() < 0.3 and item is not made:
            item["aliases"] = [rng.choice(others)]
        for field in item.get("fields", []):
            if rng.random() < 0.3:
                field["aliases"] = [rng.choice(item["fields"])["name"]]
    return made


def _named_types(kind: Any) -> Iterator[dict[str, Any]]:
    if isinstance(kind, list):
        for branch in kind:
            yield from _named_types(branch)
    elif isinstance(kind, dict):
        if "name" in kind:
            yield kind
        inside = [field["type"] for field in kind.get("fields", [])]
        for item in [*inside, kind.get("items"), kind.get("values")]:
            yield from _named_types(item)


class _Names2:
    def __init__(self, rng: Random) -> None:
        self.names = _Names()
        self.prefix = f"n{rng.randint(0, 9)}_"


def _evolve(rng: Random, kind: Any, made: _Names2) -> Any:  # noqa: C901
    if isinstance(kind, str):
        if rng.random() < 0.15 and kind in _PROMOTED:
            return rng.choice(_PROMOTED[kind])
        return ["null", kind] if rng.random() < 0.07 and kind != "null" else kind
    if isinstance(kind, list):
        return _evolve_union(rng, kind, made)
    match kind["type"]:
        case "record":
            _evolve_record(rng, kind, made)
        case "array":
            kind["items"] = _evolve(rng, kind["items"], made)
        case "map":
            kind["values"] = _evolve(rng, kind["values"], made)
        case "enum":
            if rng.random() < 0.3:
                kind["symbols"] = rng.sample(_SYMBOLS[:3] + _SYMBOLS[4:], rng.randint(1, 4))
                kind.pop("default", None)
                if rng.random() < 0.5:
                    kind["default"] = rng.choice(kind["symbols"])
        case "fixed":
            pass
        case _:
            return kind if rng.random() < 0.9 else kind["type"]
    if "name" in kind and rng.random() < 0.1:
        old = kind["name"]
        kind["name"] = made.names.next(made.prefix + "N")
        if rng.random() < 0.7:
            kind["aliases"] = [old]
    return kind


def _evolve_union(rng: Random, kinds: list[Any], made: _Names2) -> Any:
    changed = [_evolve(rng, kind, made) for kind in kinds]
    unique = {_branch_name(item): item for item in changed if not isinstance(item, list)}
    branches = list(unique.values()) or ["int"]
    if rng.random() < 0.15:
        rng.shuffle(branches)
    if rng.random() < 0.1 and len(branches) > 1:
        branches.pop()
    if rng.random() < 0.1 and not {"string", "bytes"} & unique.keys():
        branches.append("string")
    if branches == ["null"]:
        branches.append("int")
    if rng.random() < 0.1 and len(branches) == 1:
        return branches[0]
    return branches


def _evolve_record(rng: Random, kind: dict[str, Any], made: _Names2) -> None:
    fields = []
    for field in kind["fields"]:
        if rng.random() < 0.15 and len(kind["fields"]) > 1:
            continue
        field["type"] = _evolve(rng, field["type"], made)
        if rng.random() < 0.1:
            field["aliases"] = [field["name"]]
            field["name"] = made.names.next(made.prefix + "g")
        fields.append(field)
    if rng.random() < 0.3:
        fields.append(_new_field(rng, made))
    if rng.random() < 0.3:
        rng.shuffle(fields)
    kind["fields"] = fields or [_new_field(rng, made)]


_NEW: list[tuple[Any, Any]] = [
    (["null", "string"], None),
    ("string", "ab\u00fc"),
    ("int", -7),
    ("long", 2**40),
    ("double", 1.5),
    ("boolean", True),
    ("bytes", "\u00ff\u0000"),
    ({"type": "array", "items": "int"}, [1, 2, 3]),
    ({"type": "map", "values": "string"}, {"k": "v"}),
    (["int", "string"], 5),
    (["string", "null"], "x"),
    ({"type": "long", "logicalType": "timestamp-millis"}, 1000),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001\u0002"),
]


def _new_field(rng: Random, made: _Names2) -> dict[str, Any]:
    kind, default = rng.choice(_NEW)
    return {"name": made.names.next(made.prefix + "d"), "type": kind, "default": default}


def number(value: int) -> bytes:
    """Returns a zigzag number of variable length."""
    rest, parts = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        parts.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*parts, rest])


def record(rng: Random, kind: Any) -> bytes:
    """Returns a random value of a schema in bytes."""
    return _Writer(rng).value(kind)


class _Writer:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._depth = 0

    def value(self, kind: Any) -> bytes:
        rng = self._rng
        if isinstance(kind, list):
            at = rng.randrange(len(kind))
            return number(at) + self.value(kind[at])
        form = kind if isinstance(kind, str) else kind["type"]
        logical = kind.get("logicalType") if isinstance(kind, dict) else None
        match form:
            case "record":
                return b"".join(self.value(field["type"]) for field in kind["fields"])
            case "array" | "map":
                return self._list(form, kind)
            case "enum":
                return number(rng.randrange(len(kind["symbols"])))
            case "fixed":
                return self._decimal(kind, kind["size"]) if logical else rng.randbytes(kind["size"])
            case "bytes" if logical == "decimal":
                data = self._decimal(kind, rng.choice([1, 2, 8, 9, 16, 17]))
                return number(len(data)) + data
        return self._primitive(form, logical)

    def _primitive(self, form: str, logical: str | None) -> bytes:
        rng = self._rng
        match form:
            case "null":
                return b""
            case "boolean":
                return bytes([rng.randrange(2)])
            case "int":
                return number(_integer(rng, 32 if logical != "date" else 20))
            case "long":
                return number(_integer(rng, 50 if logical else 64))
            case "float":
                return struct.pack("<f", _real(rng))
            case "double":
                return struct.pack("<d", _real(rng))
        length = rng.choice([0, 1, 3, 8, 15, 16, 17, 40, 70, 200])
        if form == "string":
            data = "".join(rng.choices("abcdefgh äß€😀\0\"'", k=length)).encode()
        else:
            data = rng.randbytes(length)
        return number(len(data)) + data

    def _decimal(self, kind: dict[str, Any], size: int) -> bytes:
        digits = self._rng.randint(1, kind["precision"])
        value = self._rng.randrange(-(10**digits) + 1, 10**digits)
        bits = 8 * size - 1
        if size and not -(2**bits) <= value < 2**bits:
            value = 0
        return value.to_bytes(size, "big", signed=True) if size else b""

    def _list(self, form: str, kind: dict[str, Any]) -> bytes:
        rng, parts = self._rng, []
        self._depth += 1
        for block in range(rng.choice([0, 0, 1, 1, 1, 2]) if self._depth < 4 else 0):
            items = []
            for i in range(rng.choice([1, 1, 2, 5, 60 if self._depth == 1 else 3])):
                text = f"k{block}{i}".encode()
                key = number(len(text)) + text if form == "map" else b""
                items.append(key + self.value(kind["values" if form == "map" else "items"]))
            data = b"".join(items)
            if rng.random() < 0.5:
                parts.append(number(-len(items)) + number(len(data)) + data)
            else:
                parts.append(number(len(items)) + data)
        self._depth -= 1
        return b"".join(parts) + b"\0"


def _integer(rng: Random, bits: int) -> int:
    size = rng.choice([1, 4, 6, 7, 8, 13, 14, 20, 31, 40, 63])
    return rng.randrange(-(2 ** min(size, bits - 1)), 2 ** min(size, bits - 1))


def _real(rng: Random) -> float:
    return rng.choice([0.0, -0.0, 1.5, -2.25, 3e7, float("inf"), float("nan"), rng.random()])


def damaged(rng: Random, data: bytes) -> bytes:
    """Returns bytes that differ from a record's in a random place."""
    at = rng.randrange(len(data) + 1)
    match rng.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + rng.randbytes(rng.choice([1, 2, 12])) + data[at + 1 :]
        case 2:
            return data[:at] + rng.choice([b"\xff" * 12, b"\x80", b"\x01", b"\xff\xff\xff\xff\x0f"])
    return data + rng.randbytes(3)


def written(items: list[bytes | None]) -> tuple[bytes, list[int], list[int]]:
    """Returns records one behind the other, with their positions and lengths."""
    positions, at = [], 0
    for item in items:
        positions.append(at)
        at += len(item or b"")
    return (
        b"".join(item or b"" for item in items),
        positions,
        [-1 if item is None else len(item) for item in items],
    )
