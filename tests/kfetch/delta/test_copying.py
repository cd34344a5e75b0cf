"""A copy into two tables: which commit comes first, and what a repeated micro-batch does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import Row

from kfetch.delta.copying import Letter, TableCopy, Written
from kfetch.delta.files import written_files
from kfetch.delta.places import address
from kfetch.delta.plan import parse_plans
from kfetch.delta.source import PLANS, SETTINGS
from kfetch.errors import LeaseLost, OptionError, TableRefused
from kfetch.spark.source import KfetchDataSource
from kfetch.storage.open import StoredPath

OPTIONS = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "subscribe": "t",
    "valueFormat": "json",
    "valueSchema": "id BIGINT",
    "deadLetters": "column",
}
QUERY = "75a0c3a1-0000-4000-8000-000000000000"
_VALUE = pa.struct([("id", pa.int64())])
_LETTER = pa.struct([("error", pa.string()), ("key", pa.binary()), ("value", pa.binary())])


class Reader:
    """Spark's reader as far as a copy asks: it keeps the options, and ``files`` are its batches."""

    def __init__(self, master: str = "local[2]", **settings: str) -> None:
        self.dataSource = SimpleNamespace(register=lambda _: None)
        self.sparkContext = SimpleNamespace(
            master=master, defaultParallelism=4, getConf=lambda: settings
        )
        self.given: dict[str, str] = {}
        self.timestamp = 0

    @property
    def readStream(self) -> Reader:
        return self

    def format(self, _: str) -> Reader:
        return self

    def options(self, **options: str) -> Reader:
        self.given = options
        return self

    def load(self) -> Reader:
        return self

    def files(self, *records: tuple[int, str | None]) -> Any:
        """A micro-batch of records: the offset, and why it can't be decoded."""
        batch = pa.record_batch(
            {
                "value": pa.array([None if e else {"id": n} for n, e in records], _VALUE),
                "topic": ["t"] * len(records),
                "partition": pa.array([0] * len(records), pa.int32()),
                "offset": [n for n, _ in records],
                "timestamp": pa.array([self.timestamp] * len(records), pa.timestamp("us", "UTC")),
                "deadLetter": pa.array([e and {"error": e} for _, e in records], _LETTER),
            }
        )

        def collect() -> Iterator[Row]:
            plans = parse_plans(self.given[PLANS])
            for rows in written_files([batch], plans, json.loads(self.given.get(SETTINGS, "{}"))):
                yield from (Row(**row) for row in rows.to_pylist())

        return SimpleNamespace(collect=lambda: list(collect()))


class Copy:
    """A copy into the tables ``rows`` and ``dead``."""

    def __init__(self, directory: StoredPath, settings: Mapping[str, str] | None = None) -> None:
        self.directory, self.reader = directory, Reader()
        self.asked: list[str] = []
        self.copy = TableCopy(
            OPTIONS,
            directory / "rows",
            zone="UTC",
            settings=settings,
            select={"id": "value.id", "offset": "offset"},
            dead_letters=directory / "dead",
        )
        self.copy.look(merge_schema=False)
        self.copy.frame(self.reader, merge_schema=False)  # type: ignore[arg-type]

    def check(self) -> None:
        self.asked.append(f"{len(self.of('dead'))} dead, {len(self.of('rows'))} rows")

    def write(self, number: int, *records: tuple[int, str | None]) -> Written:
        return self.copy.write(self.reader.files(*records), QUERY, number, self.check)

    def of(self, name: str) -> list[int]:
        """The offsets of a table."""
        rows = DeltaTable(**address(self.directory / name)).to_pyarrow_table().to_pylist()
        return sorted(row["offset"] for row in rows)


def test_letters_commit_first(tmp_path: Path) -> None:
    """The lease is asked before each of the two commits. Counts and an example are told."""
    copy = Copy(tmp_path)
    written = copy.write(0, (1, None), (2, "no JSON"), (3, None))

    assert Written(rows=2, dead_letters=1, example=Letter("t", 0, 2, "no JSON")) == written
    assert ["0 dead, 0 rows", "1 dead, 0 rows"] == copy.asked
    assert ([2], [1, 3]) == (copy.of("dead"), copy.of("rows"))
    table = DeltaTable(str(tmp_path / "dead")).to_pyarrow_table()
    assert ["topic", "partition", "offset", "timestamp", "error", "key", "value"] == (
        table.column_names
    )
    assert ["id", "offset"] == DeltaTable(str(tmp_path / "rows")).to_pyarrow_table().column_names


def test_a_letter_of_a_far_year(tmp_path: Path) -> None:
    """A producer may send microseconds in place of milliseconds. Python's years end with 9999, and
    the example of the letters needs no time."""
    copy = Copy(tmp_path)
    copy.reader.timestamp = 1_700_000_000_000_000_000

    assert Letter("t", 0, 1, "bad") == copy.write(0, (1, "bad")).example


@pytest.mark.parametrize("records", [[(1, "bad")], [(1, None)], []])
def test_one_kind_alone(tmp_path: Path, records: list[tuple[int, str | None]]) -> None:
    """Nothing to write is no commit."""
    copy = Copy(tmp_path)
    copy.write(0, *records)

    assert len(records) == len(copy.asked) == len(copy.of("dead") + copy.of("rows"))


def test_a_repeated_micro_batch(tmp_path: Path) -> None:
    """With its rows in the table, nothing is written, whatever is decoded now."""
    Copy(tmp_path).write(0, (1, None), (2, "bad"))
    again = Copy(tmp_path)

    assert Written() == again.write(0, (1, "bad now"), (2, None))
    assert ([2], [1]) == (again.of("dead"), again.of("rows"))


def test_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the letters alone, another decoding could lose a record. So the copy refuses, and says
    what to do."""
    copy = Copy(tmp_path)

    def lost() -> None:
        Copy.check(copy)
        if len(copy.asked) == 2:
            raise LeaseLost("another process may write")

    monkeypatch.setattr(copy, "check", lost)
    with pytest.raises(LeaseLost):
        copy.write(0, (1, None), (2, "bad"))
    assert ([2], []) == (copy.of("dead"), copy.of("rows"))

    for one in (copy, Copy(tmp_path)):
        with pytest.raises(TableRefused, match="has the dead letters of micro-batch 0, and its"):
            one.write(0, (1, None), (2, None))
    assert ([2], []) == (copy.of("dead"), copy.of("rows"))


@pytest.mark.parametrize(
    ("master", "settings", "slots"),
    [
        ("local[4]", {"spark.executor.cores": "2"}, 4),
        ("local[3,2]", {}, 3),
        # The JVM counts the CPUs of its container, and os.cpu_count those of the machine.
        ("local[*]", {}, 4),
        ("local[*, 9]", {"spark.task.cpus": "2"}, 2),
        ("local", {}, 1),
        ("local-cluster[2,5,1024]", {}, 5),
        ("spark://host", {"spark.executor.cores": "2"}, 2),
        ("spark://host", {}, 4),
        ("yarn", {}, 1),
        ("yarn", {"spark.executor.cores": "8", "spark.task.cpus": "8"}, 1),
    ],
)
def test_tasks_share_memory(
    tmp_path: Path, master: str, settings: dict[str, str], slots: int
) -> None:
    """A quarter of the agent's memory is for the rows of all tasks of an executor, and for both
    tables of each of them."""
    copy = Copy(tmp_path)
    reader = Reader(master, **settings)
    copy.copy.frame(reader, merge_schema=False)  # type: ignore[arg-type]
    plans = parse_plans(reader.given[PLANS])

    assert [min(32, 64 // slots // 2)] * 2 == [plan.row_group_bytes >> 20 for plan in plans]


def test_a_wrong_column_names_its_argument(tmp_path: Path) -> None:
    """``select`` and ``partition_by`` have the same texts."""
    for option, more in (("select", {"select": {"x": "nothing"}}), ("partition_by", {})):
        more = more or {"partition_by": {"x": "nothing"}}
        with pytest.raises(OptionError, match="has no column nothing") as caught:
            TableCopy(OPTIONS, tmp_path, zone="UTC", **more)  # type: ignore[arg-type]
        assert option == caught.value.option


def test_names_that_are_left_out(tmp_path: Path) -> None:
    """Two names that differ in case alone are a mistake only if both are written."""
    options = OPTIONS | {"valueSchema": "id BIGINT, a INT, A INT"}
    del options["deadLetters"]
    TableCopy(options, tmp_path, zone="UTC", select={"id": "value.id", "offset": "offset"})

    with pytest.raises(TableRefused, match=r"value\.a and value\.A are one column"):
        TableCopy(options, tmp_path, zone="UTC")


def test_columns_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets all columns of the source, so that nobody else asks a schema registry for them."""
    asked, schema = [], KfetchDataSource.schema
    monkeypatch.setattr(KfetchDataSource, "schema", lambda one: asked.append(1) or schema(one))
    copy = TableCopy(
        OPTIONS,
        tmp_path,
        zone="UTC",
        select=lambda fields: {one["name"]: one["name"] for one in fields[1:3]},
        dead_letters=tmp_path / "dead",
    )

    assert ["value", "topic"] == [one["name"] for one in copy.fields]
    assert [1] == asked
