"""The types of typed values: a tree of Spark's types, and the same tree as Arrow types.

The Arrow types are those of pyspark's ``to_arrow_type``. Spark compares them exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa

__all__ = ["DEPTH_MAX", "Kind", "ValueType", "arrow_type", "list_of", "map_of", "struct_of"]

DEPTH_MAX = 32
"""Types that may lie inside each other in a schema."""


class Kind(IntEnum):
    """The kinds of types. The compiled loops know them by these numbers (``layout``)."""

    INTERVAL = 0
    """Microseconds: Spark's INTERVAL DAY TO SECOND."""
    BOOLEAN = 1
    BYTE = 2
    SHORT = 3
    INT = 4
    LONG = 5
    FLOAT = 6
    DOUBLE = 7
    DECIMAL = 8
    STRING = 9
    BINARY = 10
    DATE = 11
    TIMESTAMP = 12
    """Microseconds since 1970 in UTC."""
    TIMESTAMP_NTZ = 13
    """Microseconds since 1970 on a clock without a time zone."""
    STRUCT = 14
    ARRAY = 15
    MAP = 16
    """Its keys are scalars. In Spark's JSON functions they are strings."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """One type, with the types inside."""

    kind: Kind
    precision: int = 0
    """Digits of a decimal, 1 to 38."""
    scale: int = 0
    """Digits behind the decimal point, 0 to ``precision``."""
    names: tuple[str, ...] = ()
    """Names of a struct's fields."""
    children: tuple[ValueType, ...] = ()
    """A struct's fields, an array's element, or a map's key and value."""
    nullable: bool = True
    """Whether this field, element or map value may be null. A map's key is never null."""

    def without(self, name: str) -> ValueType:
        """Returns a struct without the field of that name."""
        kept = [(n, c) for n, c in zip(self.names, self.children, strict=True) if n != name]
        return struct_of(kept)


def struct_of(fields: Sequence[tuple[str, ValueType]]) -> ValueType:
    """Returns a struct of fields: names and types."""
    names = tuple(name for name, _ in fields)
    return ValueType(Kind.STRUCT, names=names, children=tuple(kind for _, kind in fields))


def list_of(element: ValueType) -> ValueType:
    """Returns an array type."""
    return ValueType(Kind.ARRAY, children=(element,))


def map_of(value: ValueType) -> ValueType:
    """Returns a map type from strings to ``value``."""
    return ValueType(Kind.MAP, children=(ValueType(Kind.STRING), value))


_SCALARS: dict[Kind, pa.DataType] = {
    Kind.INTERVAL: pa.duration("us"),
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    Kind.SHORT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
}


def arrow_type(kind: ValueType) -> pa.DataType:
    """Returns the Arrow type that Spark expects for a type."""
    children: list[Any] = [arrow_type(child) for child in kind.children]
    match kind.kind:
        case Kind.STRUCT:
            fields = zip(kind.names, children, kind.children, strict=True)
            return pa.struct([pa.field(n, t, nullable=child.nullable) for n, t, child in fields])
        case Kind.ARRAY:
            element: Any = pa.field("element", children[0], nullable=kind.children[0].nullable)
            return pa.list_(element)
        case Kind.MAP:
            key: Any = pa.field("key", children[0], nullable=False)
            value: Any = pa.field("value", children[1], nullable=kind.children[1].nullable)
            return _map_type(key, value)
        case Kind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
    return _SCALARS[kind.kind]


def _map_type(key: Any, value: Any) -> pa.DataType:
    made: pa.DataType = pa.map_(key, value)
    return made
