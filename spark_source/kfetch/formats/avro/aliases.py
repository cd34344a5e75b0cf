"""Aliases of a reader's schema, as Java's ``GenericDatumReader`` uses them.

It calls ``Schema.applyAliases`` twice, once itself and once for its decoder. So two fields that are
each other's alias keep their names.
"""

from __future__ import annotations

import json
from dataclasses import replace

from kfetch.errors import KfetchError
from kfetch.formats.avro.schema import MISSING, AvroField, AvroType


def renamed(writer: AvroType, reader: AvroType) -> AvroType:
    """Returns the writer's schema with the names that the reader's aliases give it.

    They give none if both schemas are equal. Raises KfetchError if two fields get one name.
    """
    return _renamed_once(_renamed_once(writer, reader), reader)


def _renamed_once(writer: AvroType, reader: AvroType) -> AvroType:
    if _are_equal(writer, reader, set()):
        return writer
    names: dict[str, str] = {}
    fields: dict[str, dict[str, str]] = {}
    _collect(reader, names, fields, set())
    return _apply(writer, names, fields, {}) if names or fields else writer


def _are_equal(one: AvroType, other: AvroType, seen: set[tuple[int, int]]) -> bool:
    """Returns whether Java's ``Schema.equals`` holds: aliases and documentation do not count.

    An enum's default does not count either.
    """
    if one is other or (id(one), id(other)) in seen:
        return True
    seen.add((id(one), id(other)))
    return (
        _identity(one) == _identity(other)
        and len(one.inside) == len(other.inside)
        and len(one.fields) == len(other.fields)
        and all(_are_equal(a, b, seen) for a, b in zip(one.inside, other.inside, strict=True))
        and all(
            _field_identity(a) == _field_identity(b) and _are_equal(a.type, b.type, seen)
            for a, b in zip(one.fields, other.fields, strict=True)
        )
    )


def _identity(kind: AvroType) -> tuple[object, ...]:
    return kind.kind, kind.name, kind.symbols, kind.size, kind.properties


def _field_identity(field: AvroField) -> tuple[object, ...]:
    default = "" if field.default is MISSING else json.dumps(field.default, sort_keys=True)
    return field.name, default, field.order, field.properties


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
