"""Rows of ``reference`` as documents that the compiled loops read without any doubt.

So all rows of a column go through the same loops, in their order. Numbers are those that the column
stores. Structs have all their fields, in the schema's order and with empty names.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np

from kfetch.formats.columns.types import Kind, ValueType

_LOW = (1 << 64) - 1


def substitute(row: list[Any] | None, schema: ValueType) -> bytes:
    """Returns the document for a row; an empty one for no row."""
    return b"" if row is None else _text(row, schema).encode()


def _text(value: Any, kind: ValueType) -> str:
    if value is None:
        return "null"
    match kind.kind:
        case Kind.STRUCT:
            fields = zip(value, kind.children, strict=True)
            return "{" + ",".join(f'"":{_text(item, child)}' for item, child in fields) + "}"
        case Kind.ARRAY:
            return "[" + ",".join(_text(item, kind.children[0]) for item in value) + "]"
        case Kind.MAP:
            item_kind = kind.children[1]
            pairs = (f"{_string(key)}:{_text(item, item_kind)}" for key, item in value)
            return "{" + ",".join(pairs) + "}"
        case Kind.STRING:
            return _string(value)
        case Kind.BINARY:
            return f'"{base64.b64encode(value).decode()}"'
        case Kind.BOOLEAN:
            return "true" if value else "false"
    return _number(value, kind.kind)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(value: Any, kind: Kind) -> str:
    if kind is Kind.DOUBLE:
        return str(struct.unpack("<q", struct.pack("<d", value))[0])
    if kind is Kind.FLOAT:
        return str(int(np.float32(value).view(np.int32)))
    if kind is Kind.DECIMAL:
        return f"{_signed(value & _LOW)}:{_signed(value >> 64 & _LOW)}"
    return str(value)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
