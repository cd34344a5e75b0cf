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
    if writer is reader or _compared(writer) == _compared(reader):
        return writer
    names: dict[str, str] = {}
    fields: dict[str, dict[str, str]] = {}
    _collect(reader, names, fields, set())
    return _apply(writer, names, fields, {}) if names or fields else writer


def _compared(kind: AvroType) -> tuple[object, ...]:
    """Returns what Java's ``Schema.equals`` compares: no aliases, documentation, enum's default."""
    inside = [*map(_compared, kind.inside)]
    fields = [(*_compared_field(field), _compared(field.type)) for field in kind.fields]
    return kind.kind, kind.name, kind.symbols, kind.size, kind.properties, inside, fields


def _compared_field(field: AvroField) -> tuple[object, ...]:
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
    renamed_type = replace(
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
    taken = [field.name for field in renamed_type.fields]
    if len(set(taken)) < len(taken):
        raise KfetchError(f"the aliases give two fields of the record {kind.name} one name")
    done[id(kind)] = renamed_type
    return renamed_type
