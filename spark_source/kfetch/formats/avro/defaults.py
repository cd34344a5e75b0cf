"""The default of a reader's field in the bytes of a record, as Java's library writes it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import NoneType
from typing import Any, TypeVar

from kfetch.formats.avro.schema import MISSING, AvroType

T = TypeVar("T")
_NAMES: dict[type, str] = {list: "array", dict: "object", str: "string", bool: "boolean"}
_TEXTS_AND_WORDS: dict[str, type] = {
    **dict.fromkeys(("string", "bytes", "fixed"), str),
    "boolean": bool,
    "null": NoneType,
}
"""The types of JSON for some kinds. A record, an array or a map may be any."""


def encoded_default(kind: AvroType, value: Any) -> bytes:
    """Returns the bytes of a default in JSON. Raises ValueError if it does not fit its type."""
    match kind.kind:
        case "record":
            return _record(kind, value)
        case "array":
            return _blocks(
                [encoded_default(kind.inside[0], item) for item in _checked(list, value)]
            )
        case "map":
            items = _checked(dict, value).items()
            return _blocks([_text(key) + encoded_default(kind.inside[0], v) for key, v in items])
        case "union":
            return _union(kind, value)
        case "enum":
            return _number(_symbol(kind, value))
        case "fixed":
            return _fitting(kind, _raw(value)[: kind.size].ljust(kind.size, b"\0"))
        case "bytes":
            return _sized(_fitting(kind, _raw(value)))
    return _PRIMITIVES[kind.kind](value)


def _fitting(kind: AvroType, data: bytes) -> bytes:
    """Returns bytes. Raises ValueError for a decimal without digits or with too many."""
    if kind.logical is not None and kind.logical.name == "decimal":
        digits = kind.logical.precision
        if not data or abs(int.from_bytes(data, "big", signed=True)) >= 10**digits:
            raise ValueError(f"it is no decimal of {digits} digits")
    return data


def _record(kind: AvroType, value: Any) -> bytes:
    given = _checked(dict, value)
    parts = []
    for field in kind.fields:
        item = given.get(field.name, field.default)
        if item is MISSING:
            raise ValueError(f"no value for {field.name}")
        parts.append(encoded_default(field.type, item))
    return b"".join(parts)


def _union(kind: AvroType, value: Any) -> bytes:
    """Takes the first branch for this type of JSON."""
    for number, branch in enumerate(kind.inside):
        if _may_be(branch.kind, value):
            return _number(number) + encoded_default(branch, value)
    raise ValueError("no branch of the union fits")


def _may_be(kind: str, value: Any) -> bool:
    if kind in ("int", "long", "float", "double"):
        return _is_number(value)
    return isinstance(value, _TEXTS_AND_WORDS.get(kind, object))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _checked(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise ValueError(f"it is no {_NAMES[kind]}")
    return value


def _symbol(kind: AvroType, value: Any) -> int:
    if value not in kind.symbols:
        raise ValueError("it is no symbol of the enum")
    return kind.symbols.index(value)


def _blocks(items: list[bytes]) -> bytes:
    return (_number(len(items)) + b"".join(items) if items else b"") + b"\0"


def _number(value: int) -> bytes:
    """Returns a zigzag number of variable length."""
    rest, parts = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        parts.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*parts, rest])


def _text(value: Any) -> bytes:
    return _sized(_checked(str, value).encode("utf-8", "replace"))


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _raw(value: Any) -> bytes:
    return _checked(str, value).encode("latin-1", "replace")


def _integer(bits: int) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        if not _is_number(value) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(f"it is no integer of {bits} bits")
        return _number(int(value))

    return encode


def _float(form: str) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        if not _is_number(value):
            raise ValueError("it is no number")
        try:
            return struct.pack(form, value)
        except OverflowError:
            return struct.pack(form, float("inf") if value > 0 else float("-inf"))

    return encode


def _boolean(value: Any) -> bytes:
    return bytes([_checked(bool, value)])


def _null(value: Any) -> bytes:
    if value is not None:
        raise ValueError("it is not null")
    return b""


_PRIMITIVES: dict[str, Callable[[Any], bytes]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(32),
    "long": _integer(64),
    "float": _float("<f"),
    "double": _float("<d"),
    "string": _text,
}
