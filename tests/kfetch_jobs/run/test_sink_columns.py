"""Which columns of a job's result its table lacks."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    DecimalType,
    IntegerType,
    LongType,
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


def test_types() -> None:
    """A column of another type has both types. Others, and columns that the table lacks, have no
    place here."""
    result = (
        StructType().add("Amount", DecimalType(10, 2)).add("id", LongType()).add("x", LongType())
    )
    table = StructType().add("amount", LongType()).add("id", LongType())

    assert ["Amount is BIGINT there, and DECIMAL(10,2) here"] == [*changed_types(result, table)]
