"""Rows of ``reference`` as an Arrow column, by pyarrow's own converters."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from kfetch.formats.columns.struct_column import arrow_type
from kfetch.formats.columns.types import Kind, ValueType

__all__ = ["column_of"]

_PRECISE = Context(prec=60)


def column_of(rows: list[Any], schema: ValueType) -> pa.Array[Any]:
    """Returns a struct column of rows: lists of values as ``reference.decode`` returns them."""
    return pa.array([_python(row, schema) for row in rows], arrow_type(schema))


def _python(value: Any, kind: ValueType) -> Any:
    if value is None:
        return None
    match kind.kind:
        case Kind.STRUCT:
            children = zip(kind.names, value, kind.children, strict=True)
            return {name: _python(item, child) for name, item, child in children}
        case Kind.ARRAY:
            return [_python(item, kind.children[0]) for item in value]
        case Kind.MAP:
            return [(key, _python(item, kind.children[1])) for key, item in value]
        case Kind.DECIMAL:
            return Decimal(value).scaleb(-kind.scale, _PRECISE)
    return value
