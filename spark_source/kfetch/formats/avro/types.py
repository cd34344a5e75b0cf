"""The type of a column for an Avro schema, as Spark's SchemaConverters and ``from_avro`` choose it.

All parts may be null. Raises NotBuilt for schemas that have no column type.
"""

from __future__ import annotations

from kfetch.errors import NotBuilt, OptionError
from kfetch.formats.avro.schema import AvroType
from kfetch.formats.columns.types import Kind, ValueType, list_of, map_of, struct_of

_SCALARS = {
    "boolean": Kind.BOOLEAN,
    "int": Kind.INT,
    "long": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "bytes": Kind.BINARY,
    "fixed": Kind.BINARY,
    "string": Kind.STRING,
    "enum": Kind.STRING,
}
_LOGICAL = {
    "date": Kind.DATE,
    "timestamp-millis": Kind.TIMESTAMP,
    "timestamp-micros": Kind.TIMESTAMP,
    "local-timestamp-millis": Kind.TIMESTAMP_NTZ,
    "local-timestamp-micros": Kind.TIMESTAMP_NTZ,
}
_WIDE = {frozenset(("int", "long")): Kind.LONG, frozenset(("float", "double")): Kind.DOUBLE}
_DIGITS_MAX = 38


def branches(union: AvroType) -> list[AvroType]:
    """Returns the branches of a union that are not null."""
    return [branch for branch in union.inside if branch.kind != "null"]


def is_wide_union(kinds: list[AvroType]) -> bool:
    """Returns whether these branches share a column: int and long, or float and double."""
    return len(kinds) > 1 and frozenset(kind.kind for kind in kinds) in _WIDE


def column_type(schema: AvroType, *, source: str = "valueSchema") -> ValueType:
    """Returns the type of the column for a reader's schema. ``source``: as in ``parse_avro``.

    Raises NotBuilt, and OptionError for a decimal of more than 38 digits.
    """
    if schema.kind != "record":
        raise NotBuilt(
            f"{source} is of type {schema.kind}, and kfetch decodes only records",
            action="use a schema of a record, or decode the value in Spark with from_avro",
            option=source,
        )
    return _type(schema, source)


def _type(schema: AvroType, source: str) -> ValueType:
    match schema.kind:
        case "record":
            return struct_of([(field.name, _type(field.type, source)) for field in schema.fields])
        case "array":
            return list_of(_type(schema.inside[0], source))
        case "map":
            return map_of(_type(schema.inside[0], source))
        case "union":
            return _union(schema, source)
        case "null":
            raise _not_built("a type null without another one", source)
    return _scalar(schema, source)


def _union(schema: AvroType, source: str) -> ValueType:
    kinds = branches(schema)
    if not kinds:
        raise _not_built("a type null without another one", source)
    if len(kinds) == 1:
        return _type(kinds[0], source)
    if is_wide_union(kinds):
        return ValueType(_WIDE[frozenset(kind.kind for kind in kinds)])
    return struct_of([(f"member{i}", _type(kind, source)) for i, kind in enumerate(kinds)])


def _scalar(schema: AvroType, source: str) -> ValueType:
    logical = schema.logical
    if logical is not None and logical.name == "decimal":
        if logical.precision > _DIGITS_MAX:
            raise OptionError(
                f"{source} has a decimal of {logical.precision} digits, and Spark has "
                f"{_DIGITS_MAX} at most",
                action="remove the logical type from the schema to read bytes",
                option=source,
            )
        return ValueType(Kind.DECIMAL, precision=logical.precision, scale=logical.scale)
    if logical is not None and logical.name == "custom-decimal":
        raise _not_built("the logical type custom-decimal", source)
    if logical is not None and logical.name in _LOGICAL:
        return ValueType(_LOGICAL[logical.name])
    if schema.catalyst and schema.kind in ("int", "long"):
        raise _not_built("the property spark.sql.catalyst.type", source)
    return ValueType(_SCALARS[schema.kind])


def _not_built(what: str, source: str) -> NotBuilt:
    return NotBuilt(
        f"{source} has {what}, which is not built yet",
        action="remove it from the schema, or decode the value in Spark with from_avro",
        option=source,
    )
