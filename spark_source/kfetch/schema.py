"""The columns of ``format("kfetch")`` as Spark's types, and what a user's own schema selects.

A user's schema names columns and their order, and says whether a key or a value is a string. Spark
passes it to the reader in place of the source's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kfetch.errors import OptionError
from kfetch.options.columns import (
    HEADERS_ARRAY,
    HEADERS_MAP,
    Column,
    check_same,
    checked,
    columns_of,
)

if TYPE_CHECKING:
    from kfetch.options import SourceOptions
    from kfetch.values.types import ValueType

__all__ = ["schema", "with_schema"]

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: Mapping[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    HEADERS_ARRAY: ArrayType(_HEADER),
    HEADERS_MAP: MapType(StringType(), BinaryType()),
}


_SCALARS: Mapping[str, DataType] = {
    "INTERVAL": DayTimeIntervalType(),
    "BOOLEAN": BooleanType(),
    "BYTE": ByteType(),
    "SHORT": ShortType(),
    "INT": IntegerType(),
    "LONG": LongType(),
    "FLOAT": FloatType(),
    "DOUBLE": DoubleType(),
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "DATE": DateType(),
    "TIMESTAMP": TimestampType(),
    "TIMESTAMP_NTZ": TimestampNTZType(),
}


def schema(options: SourceOptions) -> StructType:
    """Return the columns of a query, all nullable.

    Without the option ``columns``, they are the connector's and the optional ones.
    """
    columns = options.columns or columns_of(options.includes)
    value = _struct_of_values(options)
    types = {column.name: _TYPES[column.type] for column in columns}
    if value is not None:
        _check_value(columns)
        types["value"] = value
    return StructType([StructField(name, kind) for name, kind in types.items()])


def with_schema(options: SourceOptions, given: StructType) -> SourceOptions:
    """Return the options with the columns of the schema that Spark passes to a reader.

    It is the source's own, or the user's. Raises OptionError or NotBuilt if the source has no such
    columns, or if the option ``columns`` says something else.
    """
    if not given.fields:
        raise OptionError("the schema has no columns", action="remove .schema(…)", option="columns")
    named = [Column(field.name, _type_of(field, options)) for field in given]
    columns = checked(named, options.includes, "the schema")
    if options.json_values is not None:
        _check_value(columns)
    check_same(options.columns, columns)
    return replace(options, columns=columns)


def _struct_of_values(options: SourceOptions) -> StructType | None:
    """Return the type of values that are decoded, None for bytes. Raises OptionError."""
    if options.json_values is None:
        return None
    # Imported here, because they need Arrow.
    from kfetch.values.ddl import parse_schema
    from kfetch.values.json_options import check_zone

    parsed = parse_schema(options.json_values.schema)
    check_zone(parsed, options.json_values.time_zone)
    struct: StructType = _spark_type(parsed)
    return struct


def _check_value(columns: Iterable[Column]) -> None:
    value = next((column for column in columns if column.name == "value"), None)
    if value is not None and not value.is_decoded:
        return
    raise OptionError(
        f"valueFormat=json decodes the value, and the query reads {value or 'no value'}",
        action="read value without a type, or remove valueFormat",
        option="valueFormat",
    )


def _spark_type(kind: ValueType) -> Any:
    from kfetch.values.types import Kind

    children = [_spark_type(child) for child in kind.children]
    match kind.kind:
        case Kind.STRUCT:
            fields = zip(kind.names, children, kind.children, strict=True)
            return StructType([StructField(name, t, child.nullable) for name, t, child in fields])
        case Kind.ARRAY:
            return ArrayType(children[0], kind.children[0].nullable)
        case Kind.MAP:
            return MapType(*children, kind.children[1].nullable)
        case Kind.DECIMAL:
            return DecimalType(kind.precision, kind.scale)
    return _SCALARS[kind.kind.name]


def _type_of(field: StructField, options: SourceOptions) -> str:
    """Return the name of a field's type. Types that differ have different names.

    The struct of decoded values counts as the bytes that kfetch reads for it.
    """
    if field.name == "value" and field.nullable and field.dataType == _struct_of_values(options):
        return "binary"
    name = field.dataType.simpleString()
    if not field.nullable:
        return f"{name} not null"
    # The name doesn't say whether the elements of an array may be null.
    differs = name in _TYPES and _TYPES[name] != field.dataType
    return f"{name} with not null" if differs else name
