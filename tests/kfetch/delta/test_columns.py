"""The columns of a query: paths through structs, functions of times, and mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kfetch.delta.columns import TableColumn, all_columns, parse_column, projected
from kfetch.delta.partitions import parse_partitions
from kfetch.delta.types import TableField
from kfetch.errors import OptionError
from tests.kfetch.delta.tables import by_duckdb, column, field, files_of, plan_of

_ROW = {
    "type": "struct",
    "fields": [field("Id"), field("at", "timestamp"), field("a", "double"), field("A", "double")],
}
FIELDS: list[TableField] = [
    field("value", {"type": "struct", "fields": [field("row", _ROW)]}),
    field("timestamp", "timestamp"),
]


def parsed(text: str) -> TableColumn:
    """The column ``c`` of a text."""
    return parse_column("c", text, FIELDS, "UTC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TIMESTAMP", column("c", "timestamp", "timestamp")),
        (" VALUE.row.id ", column("c", "value.row.Id", "long")),
        ("value.row", column("c", "value.row", _ROW)),
        (
            "date(value.row.AT, 'Asia/Tokyo')",
            column("c", "value.row.at", "date", function="date", zone="Asia/Tokyo"),
        ),
        ("hour(timestamp)", column("c", "timestamp", "integer", function="hour", zone="UTC")),
    ],
)
def test_texts(text: str, expected: TableColumn) -> None:
    """A path has the source's spelling, whatever the case of the text. Its type is the field's."""
    assert expected == parsed(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("value.rows", "the stream has no column value.rows"),
        ("timestamp.x", "the stream has no column timestamp.x"),
        ("value.row.a", "the stream has several columns value.row.a"),
        ("upper(timestamp)", "kfetch has no function upper"),
        ("date(value.row.id)", "value.row.Id is BIGINT, and no timestamp"),
        ("", "the stream has no column "),
    ],
)
def test_mistakes(text: str, sentence: str) -> None:
    """What a column is not is an error with the path."""
    with pytest.raises(OptionError, match="the column c is wrong") as caught:
        parsed(text)

    assert sentence in str(caught.value)


def test_a_function_needs_a_partition() -> None:
    """The files have values of the source alone. The log has those of a function."""
    columns = [*all_columns(FIELDS), parsed("date(timestamp)")]

    with pytest.raises(OptionError, match="only a partition column may be a function"):
        parse_partitions([], columns, FIELDS, "UTC")
    assert (columns[-1],) == parse_partitions(["C"], columns, FIELDS, "UTC")


def test_a_field_of_a_null_is_null() -> None:
    """Also if Arrow's memory has a value below the null, and in the middle of a batch."""
    inner = pa.array([1, 2, 3, 4], pa.int64())
    row = pa.StructArray.from_arrays([inner], ["id"], mask=pa.array([False, True, False, True]))
    value = pa.StructArray.from_arrays([row], ["row"], mask=pa.array([False, False, True, False]))
    batch = pa.record_batch({"value": value})
    wanted = [column("number", "value.row.id", "long")]

    assert [1, None, None, None] == projected(batch, wanted)["number"].to_pylist()
    assert [None, None] == projected(batch.slice(1, 2), wanted)["number"].to_pylist()


def test_files_have_what_was_selected(tmp_path: Path) -> None:
    """Twice the same value, a field, and partitions by a value that the files do not have."""
    value: Any = [{"id": 1, "land": "de"}, None, {"id": 3, "land": "fr"}]
    batch = pa.record_batch({"value": value, "n": [1, 2, 3]})
    columns = [column("n", kind="long"), column("again", "n"), column("id", "value.id")]
    plan = replace(plan_of(tmp_path, (), [column("land", "value.land")]), columns=tuple(columns))
    files = files_of([batch], plan)

    assert {"de", None, "fr"} == {file.partitions["land"] for file in files}
    found = by_duckdb(tmp_path, "SELECT * FROM files ORDER BY n")
    assert [(1, 1, 1), (2, 2, None), (3, 3, 3)] == found
