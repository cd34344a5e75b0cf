"""Avro schemas: from the JSON text of an .avsc file to a tree of types.

Follows the Avro specification 1.12, and Java's library where the two differ. A named type that is
used twice is one object in both places. A type that contains itself is refused, as by Spark.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.columns.ddl import check_is_text

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "enum", "fixed")
TYPES_MAX = 20_000
"""Types in a schema, each counted as often as it is used."""
_DEPTH_MAX = 64
_TYPE_KEYS = ("aliases", "doc", "fields", "items", "name", "namespace", "size", "symbols", "type",
            "values")  # fmt: skip
_ENUM_KEYS = (*_TYPE_KEYS, "default")
_FIELD_KEYS = ("aliases", "default", "doc", "name", "order", "type")
"""The keys of a type, an enum and a field. Java's library counts all others as properties."""
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?[fd]?", re.I | re.A)
_HEXADECIMAL = re.compile(
    r"[+-]?0x([0-9a-f]+\.?|[0-9a-f]*\.[0-9a-f]+)p[+-]?[0-9]+[fd]?", re.I | re.A
)
_NAMED_NUMBERS = ("NaN", "Infinity")
_TEXT_MAX = 4 << 20  # characters of a schema

MISSING: Any = object()
"""The default of a field that has none."""


@dataclass(frozen=True, slots=True)
class Logical:
    """A valid logical type."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    default: Any = MISSING
    """The default in JSON."""
    aliases: tuple[str, ...] = ()
    order: str = "ascending"
    properties: str = "{}"
    """All other properties, in JSON."""


@dataclass(frozen=True, eq=False)
class AvroType:
    """One type, with the types inside."""

    kind: str
    """The name of a primitive type, or record, enum, fixed, array, map or union."""
    name: str = ""
    """Full name of a record, an enum or a fixed."""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    """An enum's symbol for symbols that the reader does not know."""
    size: int = 0
    """Bytes of a fixed."""
    inside: tuple[AvroType, ...] = ()
    """An array's element, a map's value, or the branches of a union."""
    logical: Logical | None = None
    catalyst: str = ""
    """The property spark.sql.catalyst.type."""
    properties: str = "{}"
    """The properties that this class does not name, and those of the logical type, in JSON."""
    count: int = 1
    """This type and all types inside it."""

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    def field(self, name: str) -> AvroField | None:
        """Returns the field of that name."""
        return self._fields_by_name.get(name)

    @cached_property
    def _fields_by_name(self) -> dict[str, AvroField]:
        return {field.name: field for field in self.fields}

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


def parse_avro(
    text: str, *, source: str = "valueSchema", references: Sequence[str] = ()
) -> AvroType:
    """Returns the type of a schema in JSON.

    ``source``: where the text is from, for error messages. ``references``: schemas whose types it
    names. A schema comes after those that it needs itself. Raises OptionError for text that is no
    schema, and NotBuilt for a type that contains itself.
    """
    parser = _Parser(source)
    for reference in references:
        parser.whole(_tree(reference, source))
    return parser.whole(_tree(text, source))


def _tree(text: str, source: str) -> Any:
    if len(text) > _TEXT_MAX:
        raise _error(source, f"it has more than {_TEXT_MAX} characters")
    check_is_text(text, source)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise _error(source, f"it is no JSON ({cause})") from None


def _error(source: str, why: str) -> OptionError:
    return OptionError(
        f"{source} is no Avro schema: {why}",
        action="give the JSON text of an .avsc file",
        option=source,
    )


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._known: dict[str, AvroType | None] = {}
        """Named types; None while the type is being read."""
        self._definitions: dict[str, tuple[dict[str, Any], str]] = {}
        """The JSON of the named types of a schema, each with the namespace around it."""

    def whole(self, tree: Any) -> AvroType:
        """Returns the type of a whole schema. It may use a name before the name's definition."""
        self._define(tree, "", 0)
        return self.type(tree, "", 0)

    def _define(self, tree: Any, namespace: str, depth: int) -> None:
        """Notes where a tree defines names. ``type`` raises the errors of the definitions."""
        if depth > _DEPTH_MAX:
            return
        if isinstance(tree, list):
            for item in tree:
                self._define(item, namespace, depth + 1)
        if not isinstance(tree, dict):
            return
        if tree.get("type") in (*NAMED, "error") and isinstance(tree.get("name"), str):
            name = _own_name(tree, namespace)
            self._definitions.setdefault(name, (tree, namespace))
            namespace = name.rpartition(".")[0]
            fields = tree.get("fields")
            for field in fields if isinstance(fields, list) else ():
                if isinstance(field, dict):
                    self._define(field.get("type"), namespace, depth + 1)
        for word in ("type", "items", "values"):
            self._define(tree.get(word), namespace, depth + 1)

    def type(self, tree: Any, namespace: str, depth: int) -> AvroType:
        """Returns the type of a node of the JSON."""
        if depth > _DEPTH_MAX:
            raise _error(self._source, f"types are nested deeper than {_DEPTH_MAX}")
        if isinstance(tree, str):
            return AvroType(tree) if tree in PRIMITIVES else self._reference(tree, namespace, depth)
        if isinstance(tree, list):
            return self._union(tree, namespace, depth)
        if not isinstance(tree, dict):
            raise self._wrong(f"{json.dumps(tree)[:50]} is no type")
        kind = tree.get("type")
        if isinstance(kind, dict):
            return self.type(kind, namespace, depth + 1)
        if not isinstance(kind, str):
            raise self._wrong(f"{json.dumps(tree)[:50]} has no type")
        return self._object("record" if kind == "error" else kind, tree, namespace, depth)

    def _object(self, kind: str, tree: dict[str, Any], namespace: str, depth: int) -> AvroType:
        if kind in NAMED:
            return self._named(kind, tree, namespace, depth)
        if kind in ("array", "map"):
            word = "items" if kind == "array" else "values"
            if word not in tree:
                raise self._wrong(f"a type {kind} has no {word}")
            inside = self._with_inside(kind, [self.type(tree[word], namespace, depth + 1)])
            return replace(inside, properties=_properties(tree))
        if kind in PRIMITIVES:
            catalyst = str(tree.get("spark.sql.catalyst.type", ""))
            logical = _logical(kind, tree, 0)
            return AvroType(kind, logical=logical, catalyst=catalyst, properties=_properties(tree))
        return self._reference(kind, namespace, depth)

    def _wrong(self, why: str) -> OptionError:
        return _error(self._source, why)

    def _with_inside(self, kind: str, inside: Sequence[AvroType]) -> AvroType:
        return AvroType(kind, inside=tuple(inside), count=self._count(inside))

    def _count(self, inside: Sequence[AvroType]) -> int:
        count = 1 + sum(item.count for item in inside)
        if count > TYPES_MAX:
            raise self._wrong(f"it has more than {TYPES_MAX} types")
        return count

    def _reference(self, name: str, namespace: str, depth: int) -> AvroType:
        """Returns the type of that name, which may be defined earlier or later in the schema."""
        full = _full(name, namespace)
        if full not in self._known and name in self._known:
            full = name
        if full not in self._known and full in self._definitions:
            return self.type(*self._definitions[full], depth + 1)
        known = self._known.get(full, MISSING)
        if known is MISSING:
            raise self._wrong(f"{name} is no type")
        if known is None:
            raise NotBuilt(
                f"{self._source} has the type {full} inside itself, and Spark has no such type",
                action="use a schema without recursive types, or decode the value in Python",
                option=self._source,
            )
        found: AvroType = known
        return found

    def _union(self, tree: list[Any], namespace: str, depth: int) -> AvroType:
        branches = [self.type(item, namespace, depth + 1) for item in tree]
        names = [branch.name or branch.kind for branch in branches]
        if "union" in names:
            raise self._wrong("a union stands inside a union")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise self._wrong(f"a union has {twice} twice")
        if not branches:
            raise self._wrong("a union is empty")
        return self._with_inside("union", branches)

    def _named(self, kind: str, tree: dict[str, Any], namespace: str, depth: int) -> AvroType:
        own_name = tree.get("name")
        if not isinstance(own_name, str) or not own_name:
            raise self._wrong(f"a {kind} has no name")
        name = _own_name(tree, namespace)
        inner = name.rpartition(".")[0]
        if name in PRIMITIVES or self._definitions[name][0] is not tree:
            raise self._wrong(f"the name {name} is defined twice")
        if known := self._known.get(name):  # a reference before the definition has parsed it
            return known
        self._known[name] = None
        aliases = tuple(_full(alias, inner) for alias in _texts(tree.get("aliases")))
        properties = _properties(tree, _ENUM_KEYS if kind == "enum" else _TYPE_KEYS)
        base = AvroType(kind, name=name, aliases=aliases, properties=properties)
        if kind == "record":
            named_type = self._record(base, tree, inner, depth)
        elif kind == "enum":
            named_type = self._enum(base, tree)
        else:
            named_type = self._fixed(base, tree)
        self._known[name] = named_type
        return named_type

    def _record(self, base: AvroType, tree: dict[str, Any], inner: str, depth: int) -> AvroType:
        items = tree.get("fields")
        if not isinstance(items, list):
            raise self._wrong(f"the record {base.name} has no fields")
        fields = tuple(self._field(item, base.name, inner, depth) for item in items)
        self._check_names([field.name for field in fields], base.name)
        return replace(base, fields=fields, count=self._count([field.type for field in fields]))

    def _field(self, item: Any, record: str, inner: str, depth: int) -> AvroField:
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name or "type" not in item:
            raise self._wrong(f"a field of the record {record} has no name or no type")
        kind = self.type(item["type"], inner, depth + 1)
        return AvroField(
            name,
            kind,
            self._default(item.get("default", MISSING), kind.kind, name),
            tuple(_texts(item.get("aliases"))),
            str(item.get("order", "ascending")).lower(),
            _properties(item, _FIELD_KEYS),
        )

    def _default(self, given: Any, kind: str, field: str) -> Any:
        """Returns a default. A text is a number for float and double, as in Java."""
        if kind not in ("float", "double") or not isinstance(given, str):
            return given
        number = _java_number(given)
        if number is None:
            raise self._wrong(f"the default of the field {field} is no number: {given[:50]!r}")
        return number

    def _check_names(self, names: list[str], record: str) -> None:
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise self._wrong(f"the record {record} has the field {twice} twice")

    def _enum(self, base: AvroType, tree: dict[str, Any]) -> AvroType:
        symbols, default = tree.get("symbols"), tree.get("default")
        if not isinstance(symbols, list) or not all(isinstance(item, str) for item in symbols):
            raise self._wrong(f"the enum {base.name} has no symbols")
        if len(set(symbols)) < len(symbols):
            raise self._wrong(f"the enum {base.name} has a symbol twice")
        if default is not None and default not in symbols:
            raise self._wrong(f"the default of the enum {base.name} is none of its symbols")
        return replace(base, symbols=tuple(symbols), default=default)

    def _fixed(self, base: AvroType, tree: dict[str, Any]) -> AvroType:
        size = tree.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
            raise self._wrong(f"the fixed {base.name} has no size")
        return replace(base, size=size, logical=_logical("fixed", tree, size))


def _java_number(text: str) -> float | None:
    """Returns the number that Java's Double.valueOf reads; None if Java refuses the text."""
    text = text.strip("".join(map(chr, range(33))))
    if text.lstrip("+-") in _NAMED_NUMBERS and len(text.lstrip("+-")) >= len(text) - 1:
        return float(text)
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if _HEXADECIMAL.fullmatch(text):
        return _from_hexadecimal(text.rstrip("fFdD"))
    return None


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _own_name(tree: dict[str, Any], namespace: str) -> str:
    own = tree.get("namespace")
    return _full(tree["name"], own if isinstance(own, str) else namespace)


def _properties(tree: dict[str, Any], reserved: Sequence[str] = _TYPE_KEYS) -> str:
    return json.dumps({k: v for k, v in tree.items() if k not in reserved}, sort_keys=True)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _texts(items: Any) -> list[str]:
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


_TIMES = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis",
          "local-timestamp-micros", "time-micros")  # fmt: skip
_LOGICAL = {"int": ("date",), "long": (*_TIMES, "custom-decimal"),
            "bytes": ("decimal",), "fixed": ("decimal",)}  # fmt: skip


def _logical(kind: str, tree: dict[str, Any], size: int) -> Logical | None:
    """Returns the logical type; None for a wrong one, which counts as absent."""
    name = tree.get("logicalType")
    if not isinstance(name, str) or name not in _LOGICAL.get(kind, ()):
        return None
    if name != "decimal":
        return Logical(name)
    precision, scale = tree.get("precision"), tree.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return None
    digits_max = math.floor(math.log10(2) * (8 * size - 1)) if kind == "fixed" else 2**31
    if not 0 < precision <= digits_max or not 0 <= scale <= precision:
        return None
    return Logical(name, precision, scale)
