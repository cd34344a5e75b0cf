"""The types of typed values: a tree of Spark's types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

DEPTH_MAX = 32
"""Types that may lie inside each other in a schema."""


class Kind(IntEnum):
    """The kinds of types. The compiled loops know them by these numbers (``node_table``)."""

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

    @property
    def needs_zone(self) -> bool:
        """Whether it has a TIMESTAMP, text of which may lack a zone."""
        return self.kind is Kind.TIMESTAMP or any(child.needs_zone for child in self.children)

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
