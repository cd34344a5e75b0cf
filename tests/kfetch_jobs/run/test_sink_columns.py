"""Which columns of a job's result its table lacks."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from kfetch_jobs.run.sink_columns import added_columns, changed_types


def _schema(**columns: StructType | None) -> StructType:
    return StructType([StructField(n, kind or StringType()) for n, kind in columns.items()])


@pytest.mark.parametrize(
    ("result", "table", "added"),
    [
        (_schema(a=None), _schema(a=None, b=None), []),
        (_schema(A=None), _schema(a=None), []),
        (_schema(a=None, b=None, c=None), _schema(b=None), ["a", "c"]),
        (_schema(v=_schema(x=None, y=None)), _schema(v=_schema(X=None)), ["v.y"]),
        (_schema(v=_schema(w=_schema(x=None))), _schema(v=_schema(w=_schema(y=None))), ["v.w.x"]),
        (_schema(v=_schema(x=None)), _schema(v=None), []),
        (StructType([StructField("a", IntegerType())]), _schema(a=None), []),
    ],
)
def test_names(result: StructType, table: StructType, added: list[str]) -> None:
    """Fields of structs count by their path. Upper case and types make no difference."""
    assert added == list(added_columns(result, table))


def _types(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


INT, LONG, TEXT = IntegerType(), LongType(), StringType()


@pytest.mark.parametrize(
    ("result", "table", "changed"),
    [
        (_types(A=DecimalType(10, 2), i=LONG), _types(a=LONG, i=LONG), ["A", "DECIMAL(10,2)"]),
        (_types(i=LONG, x=LONG), _types(i=LONG), []),
        (_types(i=LONG), _types(i=LONG, x=INT), []),
        (_types(v=_types(x=INT, y=INT)), _types(v=_types(Y=INT, x=TEXT)), ["v.x", "INT"]),
        (_types(v=_types(x=INT)), _types(v=TEXT), ["v", "STRUCT<X:INT>"]),
        (_types(v=ArrayType(_types(x=INT, y=INT))), _types(v=ArrayType(_types(x=INT))), []),
        (_types(v=ArrayType(ArrayType(INT))), _types(v=ArrayType(ArrayType(LONG))), ["v", "INT"]),
        (_types(v=MapType(INT, INT)), _types(v=MapType(INT, LONG)), ["v", "MAP<INT,INT>"]),
        (_types(v=NullType(), w=_types(x=NullType())), _types(v=INT, w=_types(x=INT)), []),
    ],
)
def test_types(result: StructType, table: StructType, changed: list[str]) -> None:
    """A column of another type has both types, and a field of a struct its path. Columns that the
    table lacks, and nulls without a type, fit any table."""
    found = [(*text.split(" is ")[:1], text.split()[-2]) for text in changed_types(result, table)]

    assert changed == [word for words in found for word in words]
