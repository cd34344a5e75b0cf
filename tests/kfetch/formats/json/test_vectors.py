"""The decoder against Spark's recorded results for edge cases."""

from __future__ import annotations

from typing import Any

import pytest

from kfetch.formats.columns.ddl import parse_schema
from tests.kfetch.formats.json.plain import plain
from tests.kfetch.formats.json.rows import column_of
from tests.kfetch.formats.vectors import GROUPS, Group, decode, decoder

_JAVA_17_DIGITS = {"9.999999999999999E22": "1.0E23", "8.409999999999999E21": "8.41E21",
                   "4.9999999999999996E22": "5.0E22"}  # fmt: skip
"""Text of floating-point numbers: Java 17 writes more digits than are needed. Java 19 does not."""

_ids = [group.name for group in GROUPS]


def _expected(group: Group) -> list[Any]:
    return [_corrected(row) for row in group.rows]


def _corrected(row: Any) -> Any:
    if not isinstance(row, dict):
        return row
    return {k: _JAVA_17_DIGITS.get(v, v) if isinstance(v, str) else v for k, v in row.items()}


@pytest.mark.parametrize("group", GROUPS, ids=_ids)
def test_the_decoder_gives_the_rows_of_spark(group: Group) -> None:
    """Values, nulls and corrupt records are those of Spark 4.2."""
    result = decode(decoder(group.schema, group.zones), list(group.documents))
    result.values.validate(full=True)
    assert _expected(group) == plain(result.values)
    assert group.corrupt == result.corrupt.tolist()


@pytest.mark.parametrize("group", GROUPS, ids=_ids)
def test_the_exact_decoder_alone_gives_the_same(group: Group) -> None:
    """The slow path has the meaning of Spark for every document, not only for edge cases."""
    using = decoder(group.schema, group.zones)
    decoded = [using.reference_row(document) for document in group.documents]
    column = column_of([item.row for item in decoded], parse_schema(group.schema))
    assert _expected(group) == plain(column)
    assert group.corrupt == [i for i, item in enumerate(decoded) if item.problem]
