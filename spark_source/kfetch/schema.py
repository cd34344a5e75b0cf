"""The columns of ``format("kfetch")`` as Spark's types, and what a user's own schema selects.

A user's schema names columns and their order, and says whether a key or a value is a string. Spark
passes it to the reader in place of the source's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
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


def schema(options: SourceOptions) -> StructType:
    """Return the columns of a query, all nullable.

    Without the option ``columns``, they are the connector's and the optional ones.
    """
    columns = options.columns or columns_of(options.includes)
    return StructType([StructField(column.name, _TYPES[column.type]) for column in columns])


def with_schema(options: SourceOptions, given: StructType) -> SourceOptions:
    """Return the options with the columns of the schema that Spark passes to a reader.

    It is the source's own, or the user's. Raises OptionError or NotBuilt if the source has no such
    columns, or if the option ``columns`` says something else.
    """
    if not given.fields:
        raise OptionError("the schema has no columns", action="remove .schema(…)", option="columns")
    named = [Column(field.name, _type_of(field)) for field in given]
    columns = checked(named, options.includes, "the schema")
    check_same(options.columns, columns)
    return replace(options, columns=columns)


def _type_of(field: StructField) -> str:
    """Return the name of a field's type. Types that differ have different names."""
    name = field.dataType.simpleString()
    if not field.nullable:
        return f"{name} not null"
    # The name doesn't say whether the elements of an array may be null.
    differs = name in _TYPES and _TYPES[name] != field.dataType
    return f"{name} with not null" if differs else name
