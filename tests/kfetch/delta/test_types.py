"""The columns of a stream beside those of a table."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import types as t

from kfetch.delta.types import check_fields, check_names, table_fields, unknown_fields
from kfetch.errors import TableRefused
from tests.kfetch.delta.tables import field

NESTED = {
    "type": "struct",
    "fields": [
        field("a", "integer"),
        field("tags", {"type": "array", "elementType": "string", "containsNull": True}),
    ],
}


def columns(nullable: bool, **kinds: t.DataType) -> Any:
    """The JSON that Spark makes of a schema."""
    fields = [t.StructField(name, kind, nullable) for name, kind in kinds.items()]
    return t.StructType(fields).jsonValue()["fields"]


def everything(nullable: bool) -> Any:
    """Columns of all kinds, which may be null at every place or at none."""
    inner = t.StructType([t.StructField("c", t.DateType(), nullable)])
    return columns(
        nullable,
        a=t.IntegerType(),
        s=t.StructType([t.StructField("l", t.ArrayType(inner, nullable), nullable)]),
        m=t.MapType(t.StringType(), t.DecimalType(10, 2), nullable),
        n=t.TimestampNTZType(),
    )


def test_everything_may_be_null() -> None:
    """A table is made as Spark's sink makes it: all fields, elements and values may be null."""
    assert everything(nullable=True) == table_fields(everything(nullable=False))


INTERVAL = t.DayTimeIntervalType()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (INTERVAL, "column x has the type interval day to second"),
        (t.StructType([t.StructField("y", t.ArrayType(INTERVAL))]), "column x.y.element has"),
        (t.MapType(t.StringType(), INTERVAL), "column x.value has the type"),
    ],
)
def test_types_that_delta_lacks(kind: t.DataType, sentence: str) -> None:
    """Such a type is an error with the path of its column."""
    with pytest.raises(TableRefused, match=sentence):
        table_fields(columns(True, x=kind))


def test_equal_columns_fit() -> None:
    """The order and the case of columns, further columns and comments do not matter."""
    ours = [field("id"), field("s", NESTED)]
    commented = {**NESTED, "fields": [field("a", "integer", comment="x"), NESTED["fields"][1]]}
    table = [field("S", commented), field("extra", "date"), field("ID")]

    check_fields(ours, table, "/t")
    assert [] == unknown_fields(ours, table)


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        (
            field("id"),
            field("id", "integer"),
            "column id of the stream is BIGINT, and in the table",
        ),
        (field("id"), field("id", nullable=False), "it is BIGINT NOT NULL"),
        (
            field("s", NESTED),
            field("s", {"type": "struct", "fields": [field("a", "long"), NESTED["fields"][1]]}),
            "column s.a of the stream is INT, and in the table /t it is BIGINT",
        ),
        (
            field("s", NESTED),
            field("s", {"type": "struct", "fields": NESTED["fields"][:1]}),
            "it is STRUCT<a: INT>",
        ),
        (
            field("l", {"type": "array", "elementType": "string", "containsNull": True}),
            field("l", {"type": "array", "elementType": "string", "containsNull": False}),
            "column l of the stream is ARRAY<STRING>",
        ),
        (field("d", "decimal(10,2)"), field("d", "decimal(12,2)"), "DECIMAL(12,2)"),
        (field("new"), field("old"), "the table /t has no column new"),
    ],
)
def test_differences_are_told(ours: Any, theirs: Any, sentence: str) -> None:
    """The error names the column by its path, and both types."""
    with pytest.raises(TableRefused) as caught:
        check_fields([ours], [theirs], "/t")

    assert sentence in str(caught.value)


def test_other_columns_of_the_table_get_nulls() -> None:
    """So a table with a NOT NULL column that the stream lacks is refused, as by Spark."""
    check_fields([field("id")], [field("id"), field("more")], "/t")

    with pytest.raises(TableRefused, match="column more of the table /t is NOT NULL"):
        check_fields([field("id")], [field("id"), field("more", nullable=False)], "/t")


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ([field("id"), field("ID")], "id and ID"),
        (
            [field("s", {"type": "struct", "fields": [field("a"), field("A")]})],
            "s.a and s.A",
        ),
    ],
)
def test_names_that_differ_in_case(fields: Any, names: str) -> None:
    """Delta takes them for one column, also within a struct. The error names both."""
    with pytest.raises(TableRefused, match=f"{names} are one column to Delta"):
        check_names(table_fields(fields))


@pytest.mark.parametrize("name", ["a b", "a,b", "x=y", "(x)", "a\nb", "a\0b"])
def test_names_that_delta_lacks(name: str) -> None:
    """Spark's sink refuses such a column, also within structs, arrays and maps."""
    inner = {"type": "struct", "fields": [field(name)]}
    array = {"type": "array", "elementType": inner, "containsNull": True}
    for one in (field(name), field("s", inner), field("l", array)):
        with pytest.raises(TableRefused, match="has a name with one of"):
            check_names([field("id"), one])
    check_names([field("é-x.y/z")])


def test_a_name_with_a_dot() -> None:
    """A column ``a.b`` is another one than the field ``b`` of the column ``a``."""
    check_names([field("a.b"), field("a", {"type": "struct", "fields": [field("b")]})])
