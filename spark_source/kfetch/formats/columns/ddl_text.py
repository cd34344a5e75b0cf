"""Writes a schema as Spark's DDL, for ``valueSchema``: the opposite of ``ddl``."""

from __future__ import annotations

import re

from kfetch.formats.columns.types import Kind, ValueType

__all__ = ["fields_text", "kind_text", "type_text"]

_NAMES = {Kind.BYTE: "TINYINT", Kind.SHORT: "SMALLINT", Kind.LONG: "BIGINT"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = {"not", "null", "comment"}
"""The words that may follow a field's type."""


def fields_text(struct: ValueType) -> str:
    """Returns the fields of a struct, such as ``id BIGINT, tags ARRAY<STRING>``."""
    pairs = zip(struct.names, struct.children, strict=True)
    return ", ".join(f"{_name(name)} {type_text(kind)}" for name, kind in pairs)


def type_text(kind: ValueType) -> str:
    """Returns a type, such as ``STRUCT<id: BIGINT>``."""
    match kind.kind:
        case Kind.STRUCT:
            pairs = zip(kind.names, kind.children, strict=True)
            return f"STRUCT<{', '.join(f'{_name(n)}: {type_text(c)}' for n, c in pairs)}>"
        case Kind.ARRAY:
            return f"ARRAY<{type_text(kind.children[0])}>"
        case Kind.MAP:
            return f"MAP<STRING, {type_text(kind.children[1])}>"
        case Kind.DECIMAL:
            return f"DECIMAL({kind.precision},{kind.scale})"
    return kind_text(kind.kind)


def kind_text(kind: Kind) -> str:
    """Returns the name of a kind of types without the types inside, such as ``BIGINT``."""
    return _NAMES.get(kind, kind.name)


def _name(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"
