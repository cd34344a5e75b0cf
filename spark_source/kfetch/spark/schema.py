"""The columns of ``format("kfetch")`` as Spark's types, and what a user's own schema selects.

A user's schema names columns and their order, and says whether a key or a value is a string. Spark
passes it to the reader in place of the source's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

from kfetch.errors import OptionError
from kfetch.formats import face
from kfetch.options.columns import (
    DEAD_LETTER,
    DEAD_LETTER_TYPE,
    HEADERS_ARRAY,
    HEADERS_MAP,
    Column,
    check_same,
    checked,
)

if TYPE_CHECKING:
    from kfetch.options import SourceOptions
    from kfetch.options.formats import TypedColumn

_JSON_NAMES = {face.Kind.INT: "integer", face.Kind.INTERVAL: "interval day to second"}
"""Names of types in ``StructType.json()``, where they are not those of ``Kind``."""


def schema(options: SourceOptions) -> StructType:
    """Returns the columns of a query, all nullable.

    Without the option ``columns``, they are the connector's and the optional ones.
    """
    options = _with_types(options)
    structs = _structs(options)
    _check_formats(options, options.delivered)
    types = {column.name: _TYPES[column.type] for column in options.delivered} | structs
    nested = [StructField(name, kind) for name, kind in types.items()]
    return StructType([field for column in nested for field in _flattened(column, options)])


def with_schema(options: SourceOptions, given: StructType) -> SourceOptions:
    """Returns the options with the columns of the schema that Spark passes to a reader.

    It is the source's own, or the user's. ``ignored`` also has the options that turn out to have no
    effect. Raises OptionError if the source has no such columns, or
    if the option ``columns`` says something else.
    """
    if not given.fields:
        raise OptionError("the schema has no columns", action="remove .schema(…)", option="columns")
    options = _with_types(options, given)
    structs = _structs(options)
    nested = _nested(list(given), options, structs)
    named = [Column(field.name, _type_of(field, structs)) for field in nested]
    columns = checked(named, options.includes, "the schema", options.string_columns)
    _check_formats(options, columns)
    check_same(options.columns, columns)
    unused = [name for typed in options.typed_columns for name in face.unused_options(typed)]
    ignored = dict.fromkeys((*options.ignored, *unused))
    return replace(options, columns=columns, ignored=tuple(ignored))


def _structs(options: SourceOptions) -> dict[str, StructType]:
    """Returns the types of the columns that are decoded. Raises OptionError."""
    return {typed.column: _struct_of(typed) for typed in options.typed_columns}


def _with_types(options: SourceOptions, given: StructType | None = None) -> SourceOptions:
    """Returns the options with the types that files and registries hold. ``given``: Spark's."""
    return face.with_types(options, None if given is None else partial(_is_in, given))


def _is_in(given: StructType, typed: TypedColumn) -> bool:
    """Returns whether a schema has the struct of a column, or its fields where they are flat."""
    try:
        struct = _struct_of(typed)
    except OptionError:
        return False  # an older version need not have a type in Spark
    if typed.flat:
        shapes = [_shape(field) for field in given]
        return all(_shape(field) in shapes for field in struct)
    return any(
        field.name == typed.column and _difference(field.dataType, struct, "") is None
        for field in given
    )


def _struct_of(typed: TypedColumn) -> StructType:
    parsed, name = face.value_type(typed), typed.type_option
    if typed.flat and not parsed.names:
        raise OptionError(f"valueFields=flat needs fields, and {name} has none", option=name)
    struct: StructType = _spark_type(parsed)
    return struct


def _flattened(column: StructField, options: SourceOptions) -> list[StructField]:
    """Returns the fields of a column whose struct is flat; of another one, the column itself."""
    if column.name in _flat_columns(options) and isinstance(column.dataType, StructType):
        return list(column.dataType)
    return [column]


def _flat_columns(options: SourceOptions) -> list[str]:
    return [typed.column for typed in options.typed_columns if typed.flat]


def _nested(
    fields: list[StructField], options: SourceOptions, structs: Mapping[str, StructType]
) -> list[StructField]:
    """Returns the columns of a schema with the structs in place of their fields."""
    for name in _flat_columns(options):
        own = structs[name].fields
        start = next((i for i, field in enumerate(fields) if field.name == own[0].name), 0)
        end = start + len(own)
        if list(map(_shape, fields[start:end])) != list(map(_shape, own)):
            raise OptionError(
                f"the schema has not the fields of {name}Schema one behind the other: "
                f"{structs[name].simpleString()}",
                action=f"give them so, all nullable, or remove {name}Fields=flat",
                option=f"{name}Fields",
            )
        fields = [*fields[:start], StructField(name, structs[name]), *fields[end:]]
    return fields


def _shape(field: StructField) -> tuple[str, DataType, bool]:
    """Returns what matters of a field. Its comment does not."""
    return field.name, field.dataType, field.nullable


def _check_formats(options: SourceOptions, columns: Iterable[Column]) -> None:
    """Raises OptionError unless the query reads the columns that have a format."""
    by_name = {column.name: column for column in columns}
    for typed in options.typed_columns:
        read = by_name.get(typed.column)
        if read is None or read.is_decoded:
            raise _unread(typed.column, typed.format, "struct", str(read or f"no {typed.column}"))
        if typed.flat:
            _check_names(typed.column, _struct_of(typed), by_name)
    for name in options.string_columns:
        if name not in by_name:
            raise _unread(name, "string", "string", f"no {name}")
    if options.dead_letters and DEAD_LETTER not in by_name:
        raise OptionError(
            f"deadLetters=column adds the column {DEAD_LETTER}, and the query does not read it",
            action=f"name {DEAD_LETTER} in option columns or in the schema, or remove deadLetters",
            option="deadLetters",
        )


def _check_names(name: str, struct: StructType, columns: Iterable[str]) -> None:
    """Raises OptionError for a field with the name of another one, or of another column.

    Case does not matter to Spark, unless spark.sql.caseSensitive is set, which a source can't see.

    ``columns``: the columns of the query, of which ``name`` becomes the fields.
    """
    others = {column.lower() for column in columns} - {name}
    seen: dict[str, str] = {}
    for field in struct.names:
        first = seen.setdefault(field.lower(), field)
        if first != field:
            raise OptionError(
                f"{name}Fields=flat makes the fields {first} and {field} columns, and Spark takes "
                "their names for the same",
                action=f"use {name}Fields=nested",
                option=f"{name}Fields",
            )
        if field.lower() in others:
            raise OptionError(
                f"{name}Fields=flat makes the field {field} a column, and the query has another "
                "column of this name",
                action=f"leave that one out with option columns, such as columns={name}, or use "
                f"{name}Fields=nested",
                option=f"{name}Fields",
            )


def _unread(name: str, form: str, kind: str, read: str) -> OptionError:
    return OptionError(
        f"{name}Format={form} makes the {name} a {kind}, and the query reads {read}",
        action=f"read {name} without a type, or remove {name}Format",
        option=f"{name}Format",
    )


def _difference(given: DataType, own: DataType, path: str) -> tuple[str, str, str] | None:
    """Returns the first part of a type that differs, and both types of it; None for the same type.

    Comments do not count.
    """
    parts = zip(_parts(given, path), _parts(own, path), strict=False)
    different = ((at, other, mine) for (at, other, has), (_, mine, must) in parts if has != must)
    return next(different, None)


def _parts(
    kind: DataType, path: str, *, nullable: bool = True
) -> Iterator[tuple[str, str, tuple[object, bool]]]:
    """Yields a type and then what is inside: its path, its text, and what another one must have."""
    shape: object = type(kind)
    inside: list[tuple[str, DataType, bool]] = []
    if isinstance(kind, StructType):
        shape = kind.names
        inside = [(field.name, field.dataType, field.nullable) for field in kind]
    elif isinstance(kind, ArrayType):
        inside = [("element", kind.elementType, kind.containsNull)]
    elif isinstance(kind, MapType):
        values = ("value", kind.valueType, kind.valueContainsNull)
        inside = [("key", kind.keyType, True), values]
    else:
        shape = kind
    yield path, kind.simpleString() + ("" if nullable else " NOT NULL"), (shape, nullable)
    for name, part, may_be_null in inside:
        yield from _parts(part, f"{path}.{name}", nullable=may_be_null)


def _spark_type(kind: face.ValueType) -> Any:
    children = [_spark_type(child) for child in kind.children]
    match kind.kind:
        case face.Kind.STRUCT:
            fields = zip(kind.names, children, kind.children, strict=True)
            return StructType([StructField(name, t, child.nullable) for name, t, child in fields])
        case face.Kind.ARRAY:
            return ArrayType(children[0], kind.children[0].nullable)
        case face.Kind.MAP:
            key, value = children
            return MapType(key, value, kind.children[1].nullable)
        case face.Kind.DECIMAL:
            return DecimalType(kind.precision, kind.scale)
    name = _JSON_NAMES.get(kind.kind, kind.kind.name.lower())
    field = {"name": "value", "type": name, "nullable": True, "metadata": {}}
    return StructType.fromJson({"fields": [field]})["value"].dataType


_NAMES = ("binary", "string", "int", "bigint", "timestamp")
_TYPES: Mapping[str, DataType] = {
    name: _spark_type(face.parse_schema(f"column {name}").children[0])
    for name in (*_NAMES, HEADERS_ARRAY, HEADERS_MAP, DEAD_LETTER_TYPE)
}


def _type_of(field: StructField, structs: Mapping[str, StructType]) -> str:
    """Returns the name of a field's type. Types that differ have different names.

    The struct of a decoded column counts as the bytes that kfetch reads for it.
    """
    own = structs.get(field.name)
    name = field.dataType.simpleString()
    if own is not None and field.nullable and isinstance(field.dataType, StructType):
        difference = _difference(field.dataType, own, field.name)
        if difference is None:
            return "binary"
        path, given, wanted = difference
        raise OptionError(
            f"the schema has {path} {given}, and {field.name}Format makes it {wanted}",
            action="give the same type, or remove .schema(…)",
            option=f"{field.name}Format",
        )
    if own is not None and isinstance(field.dataType, BinaryType):
        raise OptionError(
            f"the schema has {field.name} BINARY, and {field.name}Format makes it a struct",
            action=f"give the struct, or remove {field.name}Format",
            option=f"{field.name}Format",
        )
    if not field.nullable:
        return f"{name} not null"
    # The name doesn't say whether the elements of an array may be null.
    differs = name in _TYPES and _TYPES[name] != field.dataType
    return f"{name} with not null" if differs else name
