"""Avro schemas: from the JSON text of an .avsc file to a tree of types.

Follows the Avro specification 1.12, and Java's library where the two differ. A named type that is
used twice is one object in both places. Types inside themselves are refused, as Spark does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kfetch.errors import KfetchError, NotBuilt, OptionError
from kfetch.values.schema_text import check_is_text

__all__ = ["MISSING", "AvroField", "AvroType", "Logical", "parse_avro", "renamed"]

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "enum", "fixed")
TYPES_MAX = 20_000
"""Types in a schema, each counted as often as it is used."""
_DEPTH_MAX = 64
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


@dataclass(frozen=True, slots=True, eq=False)
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
    count: int = 1
    """This type and all types inside it."""

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    def field(self, name: str) -> AvroField | None:
        """Returns the field of that name."""
        return next((field for field in self.fields if field.name == name), None)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


def parse_avro(
    text: str, *, source: str = "valueSchema", references: Sequence[str] = ()
) -> AvroType:
    """Returns the type of a schema in JSON.

    ``source``: where the text is from, for error messages. ``references``: schemas whose types it
    names, each behind those that it needs itself. Raises OptionError for text that is no schema,
    and NotBuilt for a type inside itself.
    """
    parser = _Parser(source)
    for reference in references:
        parser.type(_tree(reference, source), "", 0)
    return parser.type(_tree(text, source), "", 0)


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

    def type(self, tree: Any, namespace: str, depth: int) -> AvroType:
        """Returns the type of a node of the JSON."""
        if depth > _DEPTH_MAX:
            raise _error(self._source, f"types are nested deeper than {_DEPTH_MAX}")
        if isinstance(tree, str):
            return AvroType(tree) if tree in PRIMITIVES else self._reference(tree, namespace)
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
            return self._of(kind, [self.type(tree[word], namespace, depth + 1)])
        if kind in PRIMITIVES:
            catalyst = str(tree.get("spark.sql.catalyst.type", ""))
            return AvroType(kind, logical=_logical(kind, tree, 0), catalyst=catalyst)
        return self._reference(kind, namespace)

    def _wrong(self, why: str) -> OptionError:
        return _error(self._source, why)

    def _of(self, kind: str, inside: Sequence[AvroType]) -> AvroType:
        return AvroType(kind, inside=tuple(inside), count=self._count(inside))

    def _count(self, inside: Sequence[AvroType]) -> int:
        count = 1 + sum(item.count for item in inside)
        if count > TYPES_MAX:
            raise self._wrong(f"it has more than {TYPES_MAX} types")
        return count

    def _reference(self, name: str, namespace: str) -> AvroType:
        full = _full(name, namespace)
        known = self._known.get(full, MISSING)
        if known is MISSING and full != name:
            full, known = name, self._known.get(name, MISSING)
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
        return self._of("union", branches)

    def _named(self, kind: str, tree: dict[str, Any], namespace: str, depth: int) -> AvroType:
        given = tree.get("name")
        if not isinstance(given, str) or not given:
            raise self._wrong(f"a {kind} has no name")
        own = tree.get("namespace")
        name = _full(given, own if isinstance(own, str) else namespace)
        inner = name.rpartition(".")[0]
        if name in self._known or name in PRIMITIVES:
            raise self._wrong(f"the name {name} is defined twice")
        self._known[name] = None
        aliases = tuple(_full(alias, inner) for alias in _texts(tree.get("aliases")))
        base = AvroType(kind, name=name, aliases=aliases)
        if kind == "record":
            made = self._record(base, tree, inner, depth)
        elif kind == "enum":
            made = self._enum(base, tree)
        else:
            made = self._fixed(base, tree)
        self._known[name] = made
        return made

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
        aliases = tuple(_texts(item.get("aliases")))
        return AvroField(name, kind, item.get("default", MISSING), aliases)

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


def renamed(writer: AvroType, reader: AvroType) -> AvroType:
    """Returns the writer's schema with the names that the reader's aliases give it.

    Raises KfetchError if two fields get one name.
    """
    names: dict[str, str] = {}
    fields: dict[str, dict[str, str]] = {}
    _collect(reader, names, fields, set())
    return _apply(writer, names, fields, {}) if names or fields else writer


def _collect(
    kind: AvroType, names: dict[str, str], fields: dict[str, dict[str, str]], seen: set[int]
) -> None:
    names.update(dict.fromkeys(kind.aliases, kind.name))
    if id(kind) in seen:
        return
    seen.add(id(kind))
    for field in kind.fields:
        for alias in field.aliases:
            fields.setdefault(kind.name, {})[alias] = field.name
        _collect(field.type, names, fields, seen)
    for alias in kind.aliases:
        if kind.name in fields:
            fields[alias] = fields[kind.name]
    for item in kind.inside:
        _collect(item, names, fields, seen)


def _apply(
    kind: AvroType,
    names: dict[str, str],
    fields: dict[str, dict[str, str]],
    done: dict[int, AvroType],
) -> AvroType:
    if id(kind) in done:
        return done[id(kind)]
    name = names.get(kind.name, kind.name) if kind.name else ""
    aliases = fields.get(name, {})
    made = replace(
        kind,
        name=name,
        inside=tuple(_apply(item, names, fields, done) for item in kind.inside),
        fields=tuple(
            replace(
                field,
                name=aliases.get(field.name, field.name),
                type=_apply(field.type, names, fields, done),
            )
            for field in kind.fields
        ),
    )
    taken = [field.name for field in made.fields]
    if len(set(taken)) < len(taken):
        raise KfetchError(f"the aliases give two fields of the record {kind.name} one name")
    done[id(kind)] = made
    return made
