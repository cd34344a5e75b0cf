"""What the log says of a file: DuckDB finds the same in the file's rows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kfetch.delta.statistics import column_paths, leaves
from tests.kfetch.delta.tables import by_duckdb, files_of, plan_of

UTC_TIME = pa.timestamp("us", "UTC")
NESTED = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.float64())]))])
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i8": (pa.int8(), st.integers(-128, 127)),
    "i64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f32": (pa.float32(), st.floats(width=32)),
    "f64": (pa.float64(), st.floats()),
    "text": (pa.string(), st.text(max_size=40)),
    "flag": (pa.bool_(), st.booleans()),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "day": (pa.date32(), st.dates()),
    "moment": (UTC_TIME, st.datetimes().map(lambda moment: moment.replace(tzinfo=UTC))),
    "clock": (pa.timestamp("us"), st.datetimes()),
    "money": (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    "list": (pa.list_(pa.int32()), st.lists(st.integers(0, 9), max_size=2)),
    "nest": (
        NESTED,
        st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(-9, 9),
                "b": st.none() | st.fixed_dictionaries({"c": st.none() | st.floats(-9, 9)}),
            }
        ),
    ),
}
SCHEMA = pa.schema({name: kind for name, (kind, _) in VALUES.items()})
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()}),
    min_size=1,
    max_size=12,
)
WITH_BOUNDS = ("i8", "i64", "f32", "f64", "text", "day", "moment", "clock", "money", "nest.a")
PARSED: dict[str, Callable[[Any], Any]] = {
    "day": date.fromisoformat,
    "moment": lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")),
    "clock": datetime.fromisoformat,
    "f32": float,
    "f64": float,
}


def statistics_of(directory: Path, *batches: pa.RecordBatch, **settings: object) -> Any:
    """The statistics of the one file that a task makes of these batches."""
    plan = plan_of(directory, batches[0].schema.names, **settings)
    (file,) = files_of(batches, plan)
    return json.loads(file.statistics, parse_float=Decimal)


def at(tree: Any, path: str) -> Any:
    """The value at a path of names, None if there is none."""
    for name in path.split("."):
        tree = (tree or {}).get(name)
    return tree


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ROWS, min_size=1, max_size=3), st.sampled_from([1, 1 << 20]))
def test_bounds_hold_and_nulls_are_counted(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[dict[str, Any]]], group: int
) -> None:
    """Each value lies within the bounds of its column, over one row group or many. A column
    without a NaN, an infinite number or a longer text has the exact ones."""
    directory = tmp_path_factory.mktemp("t")
    batches = [pa.RecordBatch.from_pylist(rows, SCHEMA) for rows in parts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kfetch.delta.files._CHUNK_BYTES", 0)  # else each row group ends its file
        found = statistics_of(directory, *batches, row_group_bytes=group)

    counted = [*WITH_BOUNDS, "flag", "bytes", "list", "nest.b.c"]
    nulls = ", ".join(f"count(*) - count({path})" for path in counted)
    expected = found["numRecords"], *(at(found["nullCount"], path) for path in counted)
    assert [expected] == by_duckdb(directory, f"SELECT count(*), {nulls} FROM files")
    for path in WITH_BOUNDS:
        check_bounds(path, [row_value for rows in parts for row_value in values(rows, path)], found)


def values(rows: list[dict[str, Any]], path: str) -> list[Any]:
    """The values of a column that are not null."""
    found = [at(row, path) for row in rows]
    return [value for value in found if value is not None]


def check_bounds(path: str, column: list[Any], found: Any) -> None:
    """The log's bounds of a column hold for all of its values."""
    low, high = at(found["minValues"], path), at(found["maxValues"], path)
    uncertain = any(isinstance(value, float) and not math.isfinite(value) for value in column)
    if not column or uncertain:
        assert (None, None) == (low, high), path
        return
    if path in ("moment", "clock") and max(column).year == 9999 and high is None:
        return  # rounded up, it would be in the year 10000
    low, high = (PARSED.get(path, lambda bound: bound)(bound) for bound in (low, high))
    assert low <= min(column), path
    assert high >= max(column), path
    if path not in ("text", "moment", "clock", "f32"):
        assert (min(column), max(column)) == (low, high), path


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("a" * 32, "a" * 32, "a" * 32),
        ("b" * 33, "b" * 32, "b" * 32 + "\U0010ffff"),
        ("c" * 32 + "\U0010ffff!", "c" * 32, "c" * 32 + "\U0010ffff" + "\U0010ffff"),
        ("😀" * 40, "😀" * 32, "😀" * 32 + "\U0010ffff"),
    ],
)
def test_long_texts_are_cut(tmp_path: Path, text: str, low: str, high: str) -> None:
    """At 32 characters, as Delta does. The greatest one gets a character that no text exceeds."""
    found = statistics_of(tmp_path, pa.record_batch({"t": [text]}))

    assert ({"t": low}, {"t": high}) == (found["minValues"], found["maxValues"])


def test_texts_without_bounds(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, and texts that Parquet finds too long for its footer."""
    wrong = pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())
    found = statistics_of(
        tmp_path, pa.record_batch({"wrong": wrong, "long": ["x" * 5000, "y"], "n": [1, 2]})
    )

    assert {"n": 1} == found["minValues"]
    assert {"wrong": 0, "long": 0, "n": 0} == found["nullCount"]


def test_times_are_rounded_away_from_the_values(tmp_path: Path) -> None:
    """Readers expect milliseconds: the least is rounded down, the greatest up, before 1970 too."""
    moments = [
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(2026, 1, 1, 0, 0, 0, 1, UTC),
    ]
    found = statistics_of(tmp_path, pa.record_batch({"at": pa.array(moments, UTC_TIME)}))

    assert {"at": "1969-12-31T23:59:59.999Z"} == found["minValues"]
    assert {"at": "2026-01-01T00:00:00.001Z"} == found["maxValues"]


def test_a_nan_hides_the_bounds(tmp_path: Path) -> None:
    """To Spark, NaN is the largest number. Parquet's bounds pass it over, also within a struct."""
    nested = pa.array([{"b": {"c": 1.0}}, {"b": {"c": math.nan}}, None], NESTED)
    batch = pa.record_batch({"x": [1.0, math.nan, 2.0], "y": [1.0, 2.0, 3.0], "n": nested})

    assert {"y": Decimal("1.0")} == statistics_of(tmp_path, batch)["minValues"]


def test_the_footer_says_nothing_of_floats(tmp_path: Path) -> None:
    """Spark filters row groups by it, and would skip a NaN, which it takes for the largest."""
    nested = pa.array([{"b": {"c": math.nan}}], NESTED)
    short = pa.array([1.0], pa.float32())
    statistics_of(tmp_path, pa.record_batch({"x": [math.nan], "f": short, "n": nested, "i": [1]}))

    (file,) = tmp_path.glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert ["n.a", "i"] == [one.path_in_schema for one in columns if one.is_stats_set]


@pytest.mark.parametrize("name", [".c", "[0]", ".x"])
def test_a_nan_in_a_field_with_an_odd_name(tmp_path: Path, name: str) -> None:
    """Arrow would take such a name for a path, to another field or to none."""
    kind = pa.struct([(name, pa.float64()), ("c", pa.float64())])
    batch = pa.record_batch({"n": pa.array([{name: math.nan, "c": 1.0}, {name: 2.0}], kind)})

    assert {"n": {"c": Decimal("1.0")}} == statistics_of(tmp_path, batch)["maxValues"]


def test_decimals_keep_their_digits(tmp_path: Path) -> None:
    """38 digits do not fit a floating-point number."""
    number = Decimal("12345678901234567890123456789012345.678")
    batch = pa.record_batch({"d": pa.array([number], pa.decimal128(38, 3))})

    assert {"d": number} == statistics_of(tmp_path, batch)["maxValues"]


@pytest.mark.parametrize(("asked", "expected"), [(32, 32), (2, 2), (0, 0), (-1, 40)])
def test_the_first_leaves_have_statistics(tmp_path: Path, asked: int, expected: int) -> None:
    """As many as the table says. A negative number stands for all."""
    batch = pa.record_batch({f"c{n}": [n] for n in range(40)})
    found = statistics_of(tmp_path, batch, statistics_columns=asked)

    assert expected == len(found["nullCount"])
    assert 1 == found["numRecords"]


def test_leaves_are_those_of_the_file(tmp_path: Path) -> None:
    """Lists, maps and structs within each other have as many leaves as Parquet's footer."""
    kind = pa.map_(pa.string(), pa.list_(pa.struct([("p", pa.int32()), ("q", NESTED)])))
    schema = pa.schema([("m", kind), ("s", NESTED), ("l", pa.list_(pa.list_(pa.string())))])
    pq.write_table(schema.empty_table(), tmp_path / "f.parquet")
    file = pq.ParquetFile(tmp_path / "f.parquet").schema

    paths = [file.column(i).path for i in range(len(file.names))]
    assert paths == column_paths(schema)
    found = {one.path: one.index for one in leaves(schema)}
    assert {("m",): 0, ("s", "a"): 4, ("s", "b", "c"): 5, ("l",): 6} == found
    assert [("s", "a"), ("s", "b", "c")] == [one.path for one in leaves(schema) if one.type]


def test_arrays_and_maps_have_null_counts(tmp_path: Path) -> None:
    """Over all batches of a file, within structs too. Nulls within an array do not count."""
    inside = pa.struct([("l", pa.list_(pa.int8())), ("a", pa.int8())])
    kind = pa.map_(pa.string(), pa.struct([("x", pa.int8()), ("y", pa.int8())]))
    schema = pa.schema([("m", kind), ("s", inside)])
    rows = [
        {"m": [("k", None)], "s": {"l": [None], "a": 1}},
        {"m": None, "s": {"l": None, "a": 2}},
        {"m": [], "s": None},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    found = statistics_of(tmp_path, batch, batch, statistics_columns=3)

    assert {"m": 2, "s": {"l": 4, "a": 2}} == found["nullCount"]
    assert {"s": {"a": 1}} == found["minValues"]


def test_named_columns_have_statistics(tmp_path: Path) -> None:
    """A struct stands for all of its fields. Case does not matter. The number does not count."""
    nested = pa.array([{"a": 1, "b": {"c": 2.0}}], NESTED)
    batch = pa.record_batch({"x": [1], "Nest": nested, "z": [3], "w": nested})
    paths = (("nest", "B"), ("z",))
    found = statistics_of(tmp_path, batch, statistics_columns=1, statistics_paths=paths)

    assert {"Nest": {"b": {"c": 2}}, "z": 3} == found["minValues"]
