"""Columns of nearly all different values have no dictionary in a file, and others have one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.kfetch.delta.tables import by_duckdb, files_of, plan_of

ROWS = 12_000
KIND = pa.struct([("id", pa.int64()), ("country", pa.string())])
OFFSETS = range(ROWS)
COUNTRIES = [("DE", "FR", "JP")[n % 3] for n in range(ROWS)]


def batch(rows: int = ROWS) -> pa.RecordBatch:
    """Rows with offsets, and a struct of a number and one of three texts."""
    values = [{"id": n, "country": country} for n, country in zip(OFFSETS, COUNTRIES, strict=True)]
    columns = {
        "offset": pa.array(OFFSETS, pa.int64()),
        "value": pa.array(values, KIND),
        "list": pa.array([[n, n + 1] for n in OFFSETS], pa.list_(pa.int64())),
        "text": pa.array([country if n % 2 else None for n, country in enumerate(COUNTRIES)]),
    }
    return pa.record_batch(columns).slice(0, rows)


def with_dictionary(directory: Path) -> set[str]:
    """The columns of the only file that have a dictionary."""
    (file,) = directory.glob("*.parquet")
    group = pq.read_metadata(file).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}


@pytest.mark.parametrize(
    ("rows", "different"),
    [(ROWS, {"offset", "value.id"}), (1_000, {"offset", "value.id"}), (999, set())],
)
def test_which_columns_have_a_dictionary(tmp_path: Path, rows: int, different: set[str]) -> None:
    """Different values have none, within structs too, if there are enough to tell. Lists keep it.
    A reader finds the same values."""
    files_of([batch(rows)], plan_of(tmp_path, batch().schema.names))

    columns = {"offset", "value.id", "value.country", "list.list.element", "text"}
    assert columns - different == with_dictionary(tmp_path)
    found = by_duckdb(tmp_path, 'SELECT sum("offset"), sum(value.id), count(text) FROM files')
    assert [(sum(range(rows)), sum(range(rows)), rows // 2)] == found


@pytest.mark.parametrize(("repeated", "has_one"), [(900, False), (1_200, True)])
def test_a_tenth_of_the_values_repeated(tmp_path: Path, repeated: int, has_one: bool) -> None:
    """The first 10,000 rows decide: with a tenth of repeated values, a dictionary pays."""
    numbers = [max(n, repeated) for n in range(10_000)] + [0] * 50_000
    rows = pa.record_batch({"n": pa.array(numbers, pa.int64())})
    files_of([rows], plan_of(tmp_path, ["n"]))

    assert ({"n"} if has_one else set()) == with_dictionary(tmp_path)
