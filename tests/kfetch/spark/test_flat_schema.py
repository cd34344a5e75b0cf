"""The columns of valueFields=flat: names, types, and a user's schema."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StructField,
)

from kfetch.errors import OptionError
from kfetch.spark.schema import schema, with_schema
from tests.kfetch.spark.test_schema import ALL, TEXT, options, struct, typed

FLAT = {**typed("value"), "valueFields": "flat"}


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (None, "key id t topic partition offset timestamp timestampType headers"),
        ("value", "id t"),
        ("offset,value,partition", "offset id t partition"),
    ],
)
def test_flat_values_are_columns(columns: str | None, names: str) -> None:
    """The fields stand where value stood. Spark's copy of the schema changes nothing."""
    given = options(**FLAT, **({"columns": columns} if columns else {}), includeHeaders="true")
    own = schema(given)

    assert names.split() == own.names
    assert [StructField("id", IntegerType()), StructField("t", TEXT)] == [own["id"], own["t"]]
    read = with_schema(given, own)
    assert own == schema(read)
    assert given.delivered == read.delivered


@pytest.mark.parametrize("reads_all", [True, False])
def test_a_user_s_schema_has_the_fields(reads_all: bool) -> None:
    """A user's schema names all fields of the value, in their order and one behind the other."""
    right = struct(offset=LongType(), id=IntegerType(), t=TEXT)
    wrong = struct(id=IntegerType(), offset=LongType(), t=TEXT) if reads_all else struct(t=TEXT)

    assert right == schema(with_schema(options(**FLAT), right))
    with pytest.raises(OptionError) as refused:
        with_schema(options(**FLAT), wrong)
    assert (
        "the schema has not the fields of valueSchema one behind the other: struct<id:int,t:string>"
        ": give them so, all nullable, or remove valueFields=flat"
    ) == refused.value.message


@pytest.mark.parametrize(
    ("fields", "columns", "name"),
    [
        ("id INT, offset BIGINT", None, "offset"),
        ("Key STRING", None, "Key"),
        ("headers STRING", "value,headers", "headers"),
        ("leaderepoch INT", "value,leaderEpoch", "leaderepoch"),
    ],
)
def test_fields_with_the_name_of_a_column(fields: str, columns: str | None, name: str) -> None:
    """They are an error while the query reads that column, whatever the case of the names."""
    given = {**FLAT, **ALL, "valueSchema": fields, "includeHeaders": "true"}
    with pytest.raises(OptionError) as refused:
        schema(options(**given, **({"columns": columns} if columns else {})))
    assert (
        f"valueFields=flat makes the field {name} a column, and the query has another column of "
        "this name: leave that one out with option columns, such as columns=value, or use "
        "valueFields=nested"
    ) == refused.value.message
    assert 1 <= len(schema(options(**given, columns="value")))


@pytest.mark.parametrize("fields", ["a INT, b INT, A INT", "b INT, ä INT, Ä STRING"])
def test_fields_with_names_that_are_the_same_to_spark(fields: str) -> None:
    """Spark would refuse each use of such columns as ambiguous. In a struct they are allowed."""
    given = {**FLAT, "valueSchema": fields}
    first, last = ("a", "A") if "A" in fields else ("ä", "Ä")
    with pytest.raises(OptionError) as refused:
        schema(options(**given, columns="value"))
    assert (
        f"valueFields=flat makes the fields {first} and {last} columns, and Spark takes their "
        "names for the same: use valueFields=nested"
    ) == refused.value.message
    assert 3 == len(schema(options(**{**given, "valueFields": "nested"}))["value"].dataType.names)


def test_fields_with_the_name_of_value() -> None:
    """No column has the name value any more, so a field may have it."""
    given = options(**{**FLAT, "valueSchema": "value INT, x INT"}, columns="value,offset")
    assert ["value", "x", "offset"] == schema(given).names
    assert given == with_schema(given, schema(given))


def test_flat_values_need_fields() -> None:
    """A struct without fields would leave no column."""
    given = options(**{**FLAT, "valueSchema": "STRUCT<>"})
    for asked in (lambda: schema(given), lambda: with_schema(given, struct(offset=LongType()))):
        with pytest.raises(OptionError, match="needs fields, and valueSchema has none"):
            asked()
