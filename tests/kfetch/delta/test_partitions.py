"""Partition columns: which expressions there are, and to which partition a row belongs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.delta.columns import TableColumn, all_columns
from kfetch.delta.partitions import directory, parse_partitions, split
from kfetch.errors import OptionError
from tests.kfetch.delta.tables import column, field

FIELDS = [
    field("id"),
    field("at", "timestamp"),
    field("local", "timestamp_ntz"),
    field("Country", "string"),
    field("price", "double"),
    field("ok", "boolean"),
]


def parsed(given: Any) -> tuple[TableColumn, ...]:
    """The partition columns, in Berlin's time unless they say otherwise."""
    return parse_partitions(given, all_columns(FIELDS), FIELDS, "Europe/Berlin")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["country"], column("Country")),
        ("country", column("Country")),
        ({"ok": "ok"}, column("ok", kind="boolean")),
        (
            {"day": "date(at)"},
            column("day", "at", "date", function="date", zone="Europe/Berlin"),
        ),
        (
            {"h": "hour( AT , 'UTC' )"},
            column("h", "at", "integer", function="hour", zone="UTC"),
        ),
        ({"y": "year(local)"}, column("y", "local", "integer", function="year")),
    ],
)
def test_expressions(given: Any, expected: TableColumn) -> None:
    """A column, or a function of a timestamp; a timestamp without a zone needs none."""
    assert (expected,) == parsed(given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"day": "date(when)"}, "the stream has no column when"),
        ({"day": "week(at)"}, "kfetch has no function week"),
        ({"day": "date(id)"}, "id is BIGINT, and no timestamp"),
        ({"ID": "date(at)"}, "the stream has a column ID already"),
        ({"day": "date(at, 'Mars/Base')"}, "there is no time zone Mars/Base"),
        ({"land": "Country"}, "a partition column of Country needs the same name"),
        (["price"], "DOUBLE is no type of a partition column"),
        (["id", "ID"], "it is there twice"),
        ({"day": "date(at)", "Day": "date(local)"}, "it is there twice"),
        (["at"], "TIMESTAMP is no type of a partition column"),
        ({"day": "date(at) + 1"}, "the stream has no column date"),
    ],
)
def test_mistakes(given: Any, sentence: str) -> None:
    """A wrong expression is an error that says which one, and why."""
    with pytest.raises(OptionError, match=r"partition_by|the column") as caught:
        parsed(given)

    assert sentence in str(caught.value)


def test_a_table_needs_another_column() -> None:
    """Readers of Parquet get no rows from files without columns."""
    with pytest.raises(OptionError, match="names all columns"):
        parse_partitions(["id"], all_columns([field("id")]), [field("id")], "UTC")


MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])


@given(st.lists(MOMENTS | st.none(), min_size=1, max_size=20), ZONES)
def test_parts_of_a_moment_are_those_of_the_zone(moments: list[datetime | None], zone: str) -> None:
    """Python's own calendar finds the same date, year, month and hour, before 1970 too, and each
    row is in one partition, in the order of the rows."""
    functions = ("date", "year", "month", "hour")
    columns = [column(name, "at", function=name, zone=zone) for name in functions]
    batch = pa.record_batch(
        {"at": pa.array(moments, pa.timestamp("us", "UTC")), "n": range(len(moments))}
    )
    expected: dict[Any, list[int]] = {}
    for number, moment in enumerate(moments):
        local = moment.astimezone(ZoneInfo(zone)) if moment else None
        parts = (local.date(), local.year, local.month, local.hour) if local else (None,) * 4
        key = tuple(None if part is None else str(part) for part in parts)
        expected.setdefault(key, []).append(number)

    found = {values: rows["n"].to_pylist() for values, rows in split(batch, columns, batch)}

    assert expected == found


@pytest.mark.parametrize(
    ("moment", "zone", "expected"),
    [
        ("9999-12-31T23:59:59", "Europe/Berlin", ("+10000-01-01", "10000", "1", "0")),
        ("55840-07-08T22:13:20", "UTC", ("+55840-07-08", "55840", "7", "22")),
        ("55840-07-08T22:13:20", "Europe/Berlin", ("+55840-07-09", "55840", "7", "0")),
        ("55840-12-08T22:13:20", "Europe/Berlin", ("+55840-12-08", "55840", "12", "23")),
        # In the month of Ramadan, Morocco is an hour back. Nobody knows the months after 2087.
        ("2060-02-15T12:00:00", "Africa/Casablanca", ("2060-02-15", "2060", "2", "12")),
        ("2060-11-01T12:00:00", "Africa/Casablanca", ("2060-11-01", "2060", "11", "13")),
        ("2050-07-01T23:00:00", "+02:00", ("2050-07-02", "2050", "7", "1")),
        ("0001-01-01T00:00:00", "-05:00", ("0000-12-31", "0", "12", "19")),
        ("-031-12-31T23:00:00", "UTC", ("-0031-12-31", "-31", "12", "23")),
    ],
)
def test_years_that_python_does_not_have(moment: str, zone: str, expected: Any) -> None:
    """A producer's microseconds in place of milliseconds, or a date that stands for "never", must
    not end the query for good. The texts are those of Spark."""
    at = pa.array(np.array([moment], "M8[us]"))
    functions = ("date", "year", "month", "hour")
    columns = [column(name, "at", function=name, zone=zone) for name in functions]

    batch = pa.record_batch({"at": at.cast(pa.timestamp("us", "UTC"))})
    [(values, _)] = split(batch, columns, batch)

    assert expected == values


def test_days_beyond_the_years_of_python() -> None:
    """A column of dates, too."""
    days = pa.array([2_932_897, -719_529, None], pa.date32())
    columns = [column("day", kind="date")]
    batch = pa.record_batch({"day": days})
    found = [values for values, _ in split(batch, columns, batch)]

    assert [("+10000-01-01",), ("-0001-12-31",), (None,)] == found


def test_values_of_columns() -> None:
    """Texts stand as they are, an empty one is null as in Spark, booleans are lower case."""
    batch = pa.record_batch(
        {"t": ["a b", "", None, "a b"], "ok": [True, False, None, True], "n": [1, 2, 3, 4]}
    )
    columns = [column(name) for name in ("t", "ok")]

    found = {values: rows["n"].to_pylist() for values, rows in split(batch, columns, batch)}

    assert {("a b", "true"): [1, 4], (None, "false"): [2], (None, None): [3]} == found


def test_a_text_that_is_no_utf_8() -> None:
    """A key may have any bytes. They must not end the query for good. Spark writes the character
    U+FFFD for them, too, so texts that differ in such bytes are in one partition. As in Java, half
    of a surrogate pair is one of these characters, and not one for each byte."""
    keys = [b"a\xff", b"a\xfe", b"a\xed\xa0\x80", b"a\xe2\x82b", b"a"]
    texts = pa.array(keys, pa.binary()).view(pa.string())
    batch = pa.record_batch({"t": texts, "n": range(5)})
    found = [(values, rows["n"].to_pylist()) for values, rows in split(batch, [column("t")], batch)]
    expected = ["a\ufffd", "a\ufffd", "a\ufffd", "a\ufffdb", "a"]

    assert [((text,), [n]) for n, text in enumerate(expected)] == found


def test_many_values_of_many_columns() -> None:
    """Rows with different values are in different partitions, also if there are more combinations
    of values than 64 bits can number."""
    numbers = [*range(1 << 4), 0]
    batch = pa.record_batch(
        {"first": [*([0] * (1 << 4)), 1], **dict.fromkeys("abcdefghijklmnop", numbers)}
    )
    columns = [column(name) for name in batch.schema.names]

    assert len(numbers) == sum(1 for _ in split(batch, columns, batch))


def test_no_partition_columns_no_copy() -> None:
    """Without partition columns a batch stays whole. Without rows there is no partition."""
    batch = pa.record_batch({"n": [1, 2]})

    assert [((), batch)] == list(split(batch, (), batch))
    assert [] == list(split(batch.slice(0, 0), (), batch))


def test_directories_are_plain() -> None:
    """No path has a character that a URI would change, a step out of the table, or no end."""
    columns = [column("a b", "a"), column("c")]

    assert "a_b=.._.._x_y/c=__HIVE_DEFAULT_PARTITION__/" == directory(columns, ("../../x%y", None))
    assert len(directory(columns, ("x" * 10_000, "y"))) < 200


def test_many_days_are_many_partitions() -> None:
    """Codes of several columns together stay unique."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    moments = [start + timedelta(hours=7 * n) for n in range(500)]
    batch = pa.record_batch(
        {"at": pa.array(moments, pa.timestamp("us", "UTC")), "t": [str(n % 3) for n in range(500)]}
    )
    fields = [field("at", "timestamp"), field("t", "string"), field("n")]
    given = {"d": "date(at, 'UTC')", "h": "hour(at, 'UTC')", "t": "t"}
    columns = parse_partitions(given, all_columns(fields), fields, "UTC")
    expected = {(str(m.date()), str(m.hour), str(n % 3)) for n, m in enumerate(moments)}

    assert expected == {values for values, _ in split(batch, columns, batch)}
