"""The columns of a stream as those of a Delta table, and how the two differ. Pure.

Delta writes a schema as Spark does: the JSON of a StructType. So a column is a mapping with
``name``, ``type``, ``nullable`` and ``metadata``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kfetch.errors import TableRefused

TableField = Mapping[str, Any]
"""A column, or a field of a struct."""

_SCALARS = {
    "boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date",
    "timestamp", "timestamp_ntz",
}  # fmt: skip
_FORBIDDEN = set(" ,;{}()\n\t=\0")
"""Source: Delta's error DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES; a name of Arrow ends at a NUL."""


def table_fields(fields: Iterable[TableField]) -> list[TableField]:
    """Returns the columns that a table needs for those of a stream. All may be null.

    Spark's sink makes such tables, too. Raises TableRefused for a type that Delta does not have.
    """
    return [_table_field(field, "") for field in fields]


def _table_field(field: TableField, path: str) -> TableField:
    name = f"{path}{field['name']}"
    kind = _nullable(field["type"], name)
    return {"name": field["name"], "type": kind, "nullable": True, "metadata": {}}


def _nullable(kind: Any, path: str) -> Any:
    """Returns a type whose fields, elements and values may be null."""
    if isinstance(kind, str):
        if kind in _SCALARS or kind.startswith("decimal("):
            return kind
        raise TableRefused(
            f"column {path} has the type {kind}, and Delta has no such type",
            action="leave the column out with option columns, or read it as another type",
        )
    match kind["type"]:
        case "struct":
            inside = [_table_field(field, f"{path}.") for field in kind["fields"]]
            return {"type": "struct", "fields": inside}
        case "array":
            element = _nullable(kind["elementType"], f"{path}.element")
            return {"type": "array", "elementType": element, "containsNull": True}
    key, value = (_nullable(kind[f"{part}Type"], f"{path}.{part}") for part in ("key", "value"))
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def check_names(fields: Iterable[TableField]) -> None:
    """Raises TableRefused for a name that no column of a Delta table may have, in structs too.

    Two names may not differ in case alone. Spark's sink refuses both as well. Only column mapping
    allows odd characters, and kfetch does not have it.
    """
    known: dict[tuple[str, ...], str] = {}
    for path in _all_names({"type": "struct", "fields": fields}):
        name, key = ".".join(path), tuple(part.lower() for part in path)
        other = known.get(key)
        known[key] = name
        if other is not None:
            raise TableRefused(
                f"{other} and {name} are one column to Delta, which passes over case",
                action="leave one of them out of the schema",
            )
        if set(name) & _FORBIDDEN:
            raise TableRefused(
                f"column {name!r} has a name with one of the characters ' ,;{{}}()=', a tab, a "
                "line's end or a NUL, and Delta's files have no such name",
                action="leave the column out, or give it another name",
            )


def _all_names(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the names of columns and fields, each behind those around it."""
    if isinstance(kind, Mapping):
        for part in kind.get("fields", ()):
            name = (*path, part["name"])
            yield name
            yield from _all_names(part["type"], name)
        for inner in ("elementType", "keyType", "valueType"):
            yield from _all_names(kind.get(inner), (*path, inner.removesuffix("Type")))


def check_maps(fields: Iterable[TableField]) -> None:
    """Raises TableRefused for columns that need the feature ``timestampNtz``, unknown to delta-rs.

    It adds the feature for such times in columns, structs and arrays, and not for those in a map.
    """
    for field in fields:
        if _has_ntz_in_map(field["type"]):
            raise TableRefused(
                f"column {field['name']} has TIMESTAMP_NTZ within a map, and delta-rs would make a "
                "table that nobody can read",
                action="let Spark create the table, or give the table the feature timestampNtz "
                "with Spark, or read the values as TIMESTAMP",
            )


def _has_ntz_in_map(kind: Any, *, in_map: bool = False) -> bool:
    if not isinstance(kind, Mapping):
        return in_map and kind == "timestamp_ntz"
    inside = [field["type"] for field in kind.get("fields", ())]
    inside += [kind.get(name) for name in ("elementType", "keyType", "valueType")]
    return any(_has_ntz_in_map(one, in_map=in_map or kind["type"] == "map") for one in inside)


def unknown_fields(ours: Iterable[TableField], table: Iterable[TableField]) -> list[TableField]:
    """Returns the columns that a table does not have. Case does not matter, as in Spark."""
    known = {field["name"].lower() for field in table}
    return [field for field in ours if field["name"].lower() not in known]


def check_fields(ours: Sequence[TableField], table: Sequence[TableField], where: str) -> None:
    """Raises TableRefused unless a table has all columns, of the same types, and they may be null.

    The table's other columns get nulls, so they may be null, too.

    ``where``: the table, for the sentence.
    """
    if unknown := unknown_fields(ours, table):
        raise TableRefused(
            f"the table {where} has no column {' and '.join(field['name'] for field in unknown)}",
            action="leave it out with option columns, or add it with merge_schema=True",
        )
    for field in unknown_fields(table, ours):
        if not field["nullable"]:
            raise TableRefused(
                f"column {field['name']} of the table {where} is NOT NULL, and the stream lacks it",
                action="add it to the stream's columns, or let the table's column be null",
            )
    theirs = {field["name"].lower(): field for field in table}
    for field in ours:
        for path, mine, other in _differences(field, theirs[field["name"].lower()], ""):
            raise TableRefused(
                f"column {path} of the stream is {mine}, and in the table {where} it is {other}",
                action="read it as the table's type, or write to another table",
            )


def check_case(before: Sequence[TableField], now: Sequence[TableField], where: str) -> None:
    """Raises TableRefused if a name has another case than before. Readers of files look at case.

    ``where``: the table, for the sentence.
    """
    names = {field["name"].lower(): field["name"] for field in now}
    for name in (field["name"] for field in before):
        if names.get(name.lower(), name) != name:
            raise TableRefused(
                f"column {name} of the table {where} is {names[name.lower()]} now",
                action="start the query again: its files get the new name",
            )


def _differences(ours: TableField, theirs: TableField, path: str) -> Iterator[tuple[str, str, str]]:
    """Yields the path and both types of each difference. ``ours`` may be null everywhere."""
    name = f"{path}{ours['name']}"
    if not theirs["nullable"]:
        yield name, type_text(ours["type"]), f"{type_text(theirs['type'])} NOT NULL"
    else:
        yield from _type_differences(ours["type"], theirs["type"], name)


def _type_differences(ours: Any, theirs: Any, name: str) -> Iterator[tuple[str, str, str]]:
    if _is_struct(ours) and _is_struct(theirs) and _names(ours) == _names(theirs):
        for mine, other in zip(ours["fields"], theirs["fields"], strict=True):
            yield from _differences(mine, other, f"{name}.")
    elif without_metadata(ours) != without_metadata(theirs):
        yield name, type_text(ours), type_text(theirs)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, Mapping) and kind["type"] == "struct"


def _names(kind: Any) -> list[str]:
    return [field["name"] for field in kind["fields"]]


def without_metadata(kind: Any) -> Any:
    """Returns a type without the comments and properties of its fields."""
    if isinstance(kind, Mapping):
        return {name: without_metadata(part) for name, part in kind.items() if name != "metadata"}
    return [without_metadata(part) for part in kind] if isinstance(kind, list) else kind


def type_text(kind: Any) -> str:
    """Returns a type as Spark's SQL writes it, for sentences."""
    if isinstance(kind, str):
        return {"integer": "INT", "long": "BIGINT"}.get(kind, kind.upper())
    match kind["type"]:
        case "struct":
            fields = (f"{field['name']}: {type_text(field['type'])}" for field in kind["fields"])
            return f"STRUCT<{', '.join(fields)}>"
        case "array":
            return f"ARRAY<{type_text(kind['elementType'])}>"
    return f"MAP<{type_text(kind['keyType'])}, {type_text(kind['valueType'])}>"
