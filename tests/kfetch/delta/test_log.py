"""The log of a table: each micro-batch once, beside other writers, and tables that are refused."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    Schema,
    TableFeatures,
    Transaction,
    write_deltalake,
)

from kfetch.delta import log
from kfetch.delta.log import TableLog
from kfetch.errors import LeaseLost, OptionError, TableRefused
from tests.kfetch.delta.tables import Table, column, field, room_for

COLUMNS = [field("n"), field("t", "string")]
QUERY = "75a0c3a1-0000-4000-8000-000000000000"


def rows(*numbers: int) -> pa.RecordBatch:
    """A batch of the table's columns."""
    return pa.record_batch({"n": pa.array(numbers, pa.int64()), "t": [str(n) for n in numbers]})


def numbers(table: Table) -> list[int]:
    """What delta-rs reads."""
    return sorted(row["n"] for row in table.rows())


def test_a_micro_batch_is_one_commit(tmp_path: Path) -> None:
    """All files and the transaction stand in one file of the log."""
    table = Table(tmp_path / "t", COLUMNS)

    assert table.append(QUERY, 0, rows(1, 2), rows(3))
    assert table.append(QUERY, 1, rows(4))

    assert [1, 2, 3, 4] == numbers(table)
    last = (table.directory / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    kinds = [set(json.loads(line)) for line in last]
    assert [{"commitInfo"}, {"add"}, {"txn"}] == kinds
    # Databricks then lets other writers pass that have read the table meanwhile.
    assert json.loads(last[0])["commitInfo"]["isBlindAppend"]
    transaction = json.loads(last[2])["txn"]
    assert (QUERY, 0) == (transaction["appId"], transaction["version"])


def test_a_transaction_has_its_time(tmp_path: Path) -> None:
    """Without it, Spark takes the transaction for an expired one, if the table lets these expire.
    It leaves it out of a checkpoint of the log, and the micro-batch could come twice."""
    table = Table(tmp_path / "t", COLUMNS)
    before = time.time()
    table.append(QUERY, 0, rows(1))

    (transaction,) = [one["txn"] for one in table.actions() if "txn" in one]
    assert before - 1 <= transaction["lastUpdated"] / 1000 <= time.time()


def test_a_repeated_micro_batch_commits_nothing(tmp_path: Path) -> None:
    """Also by another process, and with other rows: the first ones stay."""
    table = Table(tmp_path / "t", COLUMNS)
    table.append(QUERY, 0, rows(1))
    table.append(QUERY, 1, rows(2))
    again = Table(tmp_path / "t", COLUMNS)

    assert not table.append(QUERY, 1, rows(20))
    assert not again.append(QUERY, 1, rows(21))
    assert not again.append(QUERY, 0, rows(10))
    assert again.append("another query", 0, rows(3))
    assert [1, 2, 3] == numbers(table)


def test_two_drivers_with_one_checkpoint(tmp_path: Path) -> None:
    """Both have looked before either commits. One of them wins, and the other commits nothing."""
    table, other = Table(tmp_path / "t", COLUMNS), Table(tmp_path / "t", COLUMNS)
    files = table.write(rows(1))
    looked = other.log.has_batch
    raced: list[bool] = []

    def race(query: str, batch: int) -> bool:
        found = looked(query, batch)
        if not raced:
            raced.append(table.log.commit(QUERY, 0, files, lambda: None))
        return found

    other.log.has_batch = race  # type: ignore[method-assign]

    assert not other.append(QUERY, 0, rows(100))
    assert [True] == raced
    assert [1] == numbers(table)


def beside(act: Callable[[Path], object], table: Table) -> bool:
    """Commit a micro-batch while another writer commits, after kfetch has looked at the table."""
    add = table.log._add
    acted: list[object] = []

    def late(*args: Any) -> None:
        if not acted:
            acted.append(act(table.directory) or True)
        add(*args)

    table.log._add = late  # type: ignore[method-assign]
    committed = table.append(QUERY, 5, rows(7))
    assert acted
    return committed


def test_another_run_commits_right_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before kfetch looks at the table again. It must not take the other micro-batch, which is a
    later one, for its own: the next one would come twice."""
    table, other = Table(tmp_path / "t", COLUMNS), Table(tmp_path / "t", COLUMNS)
    commit = DeltaTable.create_write_transaction
    behind = [other]

    def overtaken(*args: Any, **more: Any) -> None:
        commit(*args, **more)
        if behind:
            behind.pop().append(QUERY, 1, rows(2))

    monkeypatch.setattr(DeltaTable, "create_write_transaction", overtaken)
    table.append(QUERY, 0, rows(1))

    assert not table.append(QUERY, 1, rows(20))
    assert [1, 2] == numbers(table)


def other_rows(directory: Path) -> None:
    """Another writer appends."""
    write_deltalake(str(directory), pa.table(rows(100)), mode="append")


def compaction(directory: Path) -> None:
    """Another writer merges the table's files."""
    DeltaTable(str(directory)).optimize.compact()


def deletion(directory: Path) -> None:
    """Another writer deletes rows."""
    DeltaTable(str(directory)).delete("n = 1")


def new_column(directory: Path) -> None:
    """Another writer adds a column."""
    DeltaTable(str(directory)).alter.add_columns(Field("more", "long"))


def new_property(directory: Path) -> None:
    """Somebody sets a property that asks nothing of writers."""
    DeltaTable(str(directory)).alter.set_table_properties({"delta.appendOnly": "true"})


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (other_rows, [1, 2, 7, 100]),
        (compaction, [1, 2, 7]),
        (deletion, [2, 7]),
        (new_column, [1, 2, 7]),
        (new_property, [1, 2, 7]),
    ],
)
def test_other_writers_between_look_and_commit(
    tmp_path: Path, act: Callable[[Path], object], expected: list[int]
) -> None:
    """kfetch looks again, and commits if its files still fit."""
    table = Table(tmp_path / "t", COLUMNS)
    table.append(QUERY, 0, rows(1))
    table.append(QUERY, 1, rows(2))

    assert beside(act, table)
    assert expected == numbers(table)
    assert 5 == DeltaTable(str(table.directory)).transaction_version(QUERY)


@pytest.mark.parametrize("act", [None, new_property])
def test_the_caller_is_asked_before_each_try(
    tmp_path: Path, act: Callable[[Path], object] | None
) -> None:
    """Also after a conflict with another writer. If it may not write, the log stays as it is."""
    table = Table(tmp_path / "t", COLUMNS)
    table.append(QUERY, 0, rows(1))
    add, files = table.log._add, table.write(rows(2))
    steps: list[str] = []

    def late(*args: Any) -> None:
        steps.append("try")
        if act and steps.count("try") == 1:
            act(table.directory)
        add(*args)

    def check() -> None:
        steps.append("ask")
        if steps.count("ask") == (2 if act else 1):
            raise LeaseLost("another process may write")

    table.log._add = late  # type: ignore[method-assign]
    with pytest.raises(LeaseLost):
        table.log.commit(QUERY, 1, files, check)

    assert (["ask", "try", "ask"] if act else ["ask"]) == steps
    assert [1] == numbers(table)


def test_a_failure_behind_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """delta-rs writes a checkpoint of the log after some commits. If that fails, the micro-batch is
    in the table nevertheless. The query goes on, and the log names the table and the cause."""
    table = Table(tmp_path / "t", COLUMNS)
    table.append(QUERY, 0, rows(1))
    properties = {"delta.checkpointInterval": "3"}
    DeltaTable(str(table.directory)).alter.set_table_properties(properties)
    in_the_way = table.directory / "_delta_log" / f"{5:020}.checkpoint.parquet" / "x"
    in_the_way.mkdir(parents=True)

    for batch in range(1, 9):
        assert table.append(QUERY, batch, rows(batch))

    assert [1, *range(1, 9)] == numbers(table)
    assert f"is in the table {table.directory}, and then delta-rs failed: " in caplog.text


def constraint(directory: Path) -> None:
    """Somebody adds a constraint."""
    DeltaTable(str(directory)).alter.add_constraint({"small": "n < 5"})


def other_type(directory: Path) -> None:
    """Somebody makes the table anew, with another type."""
    table = pa.table({"n": ["text"], "t": ["x"]})
    write_deltalake(str(directory), table, mode="overwrite", schema_mode="overwrite")


def other_case(directory: Path) -> None:
    """Somebody makes the table anew, with a column in another case."""
    table = pa.table({"N": [1], "t": ["x"]})
    write_deltalake(str(directory), table, mode="overwrite", schema_mode="overwrite")


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (constraint, "has the constraint small"),
        (other_case, "column n of the table .* is N now"),
        (other_type, "column n of the stream is BIGINT, and in the table"),
    ],
)
def test_changes_that_end_the_query(
    tmp_path: Path, act: Callable[[Path], object], sentence: str
) -> None:
    """The error says what changed. The micro-batch is not in the table."""
    table = Table(tmp_path / "t", COLUMNS)
    table.append(QUERY, 0, rows(1))

    with pytest.raises(TableRefused, match=sentence):
        beside(act, table)

    assert 0 == DeltaTable(str(table.directory)).transaction_version(QUERY)
    assert 7 not in [value for row in table.rows() for value in row.values()]


@pytest.mark.parametrize("room", [0, 300])
def test_a_full_disk(tmp_path: Path, room: int) -> None:
    """A commit that has no room is no commit, and readers still read. With room again, the same
    micro-batch commits once."""
    table = Table(tmp_path / "t", COLUMNS)
    table.append(QUERY, 0, rows(1))
    files = table.write(rows(2))
    with room_for(room), pytest.raises(OSError, match="File too large"):
        table.log.commit(QUERY, 1, files, lambda: None)
    assert [1] == numbers(table)

    assert table.log.commit(QUERY, 1, files, lambda: None)
    assert not table.log.commit(QUERY, 1, files, lambda: None)
    assert [1, 2] == numbers(table)


@pytest.mark.parametrize("written", [0, 2])
@pytest.mark.parametrize("commits", [0, 1, 3])
def test_a_table_that_is_made_anew(tmp_path: Path, commits: int, written: int) -> None:
    """Its log may be shorter or longer than the old one. The query ends, and no file of it is in
    the new table, also if it has written none before. Started again, it goes on there."""
    table = Table(tmp_path / "t", COLUMNS)
    for number in range(written):
        table.append(QUERY, number, rows(number))
    shutil.rmtree(table.directory)
    other = Table(tmp_path / "t", [field("n", "string"), field("t", "string")])
    for number in range(commits):
        other.append("other", number, pa.record_batch({"n": ["x"], "t": ["y"]}))

    with pytest.raises(TableRefused, match="removed and made anew"):
        table.append(QUERY, 2, rows(3))

    assert commits == len(other.rows())
    with pytest.raises(TableRefused, match="column n of the stream is BIGINT"):
        Table(tmp_path / "t", COLUMNS)


def test_a_table_whose_old_commits_are_removed(tmp_path: Path) -> None:
    """Delta removes them behind a checkpoint, also the newest that the query knows. It goes on."""
    table = Table(tmp_path / "t", COLUMNS)
    table.append(QUERY, 0, rows(1))
    other_rows(table.directory)
    DeltaTable(str(table.directory)).create_checkpoint()
    for version in (0, 1):
        (table.directory / "_delta_log" / f"{version:020}.json").unlink()

    assert table.append(QUERY, 1, rows(2))
    assert not table.append(QUERY, 1, rows(2))
    assert [1, 2, 100] == numbers(table)


def test_a_query_finds_its_table_by_path(tmp_path: Path) -> None:
    """A table of delta-rs itself, whose columns have another order and case."""
    write_deltalake(str(tmp_path / "t"), pa.table({"T": ["0"], "N": [0], "extra": [1.5]}))
    table = Table(tmp_path / "t", COLUMNS)
    batch = pa.record_batch({"t": ["1"], "n": [1]})
    table.plan = replace(table.plan, columns=(column("T", "t"), column("N", "n")))

    table.append(QUERY, 0, batch)

    assert [{"T": "0", "N": 0, "extra": 1.5}, {"T": "1", "N": 1, "extra": None}] == sorted(
        table.rows(), key=lambda row: row["N"]
    )


def test_merge_schema_adds_columns(tmp_path: Path) -> None:
    """On request alone. Older rows have nulls there."""
    Table(tmp_path / "t", COLUMNS).append(QUERY, 0, rows(1))
    wider = TableLog(tmp_path / "t", [*COLUMNS, field("at", "timestamp")], [])

    with pytest.raises(TableRefused, match="no column at"):
        wider.open(merge_schema=False)
    described = wider.open(merge_schema=True)

    assert ["n", "t", "at"] == [one["name"] for one in described.fields]
    assert [None] == [
        row["at"] for row in DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    ]


def map_of(kind: Any) -> Any:
    """The type of maps from texts to these values."""
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


_STRUCT = {"type": "struct", "fields": [field("at", "timestamp_ntz"), field("n")]}
_ARRAY = {"type": "array", "elementType": _STRUCT, "containsNull": True}


@pytest.mark.parametrize(
    "kind",
    [
        map_of("timestamp_ntz"),
        map_of(_ARRAY),
        {"type": "struct", "fields": [field("m", map_of(map_of("timestamp_ntz")))]},
    ],
)
def test_times_without_a_zone_in_maps(tmp_path: Path, kind: Any) -> None:
    """delta-rs writes such columns and names no feature for them. Nobody could read the table. So
    it has to have the feature before."""
    wider = [*COLUMNS, field("m", kind)]
    with pytest.raises(TableRefused, match="column m has TIMESTAMP_NTZ within a map"):
        Table(tmp_path / "t", wider)
    assert [] == os.listdir(tmp_path)
    table = Table(tmp_path / "t", COLUMNS)
    log = TableLog(table.directory, wider, [])
    for _ in range(2):
        with pytest.raises(TableRefused, match="column m has TIMESTAMP_NTZ within a map"):
            log.open(merge_schema=True)
    assert 0 == DeltaTable(str(table.directory)).version()

    DeltaTable(str(table.directory)).alter.add_feature(
        TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True
    )
    assert wider == log.open(merge_schema=True).fields
    assert [] == table.rows()


@pytest.mark.parametrize("kind", ["timestamp_ntz", _STRUCT, _ARRAY])
def test_times_without_a_zone(tmp_path: Path, kind: Any) -> None:
    """Elsewhere delta-rs names the feature itself, also in a table beside maps of other values."""
    wider = [*COLUMNS, field("m", map_of("long")), field("at", kind)]
    Table(tmp_path / "a", wider)
    table = Table(tmp_path / "b", COLUMNS)
    TableLog(table.directory, wider, []).open(merge_schema=True)

    for name in ("a", "b"):
        assert "timestampNtz" in DeltaTable(str(tmp_path / name)).protocol().reader_features  # type: ignore[operator]


@pytest.mark.parametrize(
    ("fields", "partitions", "sentence"),
    [
        (
            [*COLUMNS, field("day", "date")],
            ["day"],
            "partitioned by no column, and the query by day",
        ),
        ([field("n", "string"), field("more")], [], "column n of the stream is STRING"),
    ],
)
def test_a_refused_query_adds_no_column(
    tmp_path: Path, fields: list[Any], partitions: list[str], sentence: str
) -> None:
    """merge_schema changes a table only if the query can write it then."""
    table = Table(tmp_path / "t", COLUMNS)

    with pytest.raises(TableRefused, match=sentence):
        TableLog(tmp_path / "t", fields, partitions).open(merge_schema=True)
    assert 0 == DeltaTable(str(table.directory)).version()


def test_partitioned_tables(tmp_path: Path) -> None:
    """delta-rs reads the values from the log, null among them, and skips other partitions."""
    table = Table(tmp_path / "t", COLUMNS, ["t"])
    batch = pa.record_batch({"n": [1, 2, 3], "t": ["a b/c", None, "ü%"]})
    table.append(QUERY, 0, batch)

    expected = [{"n": 1, "t": "a b/c"}, {"n": 2, "t": None}, {"n": 3, "t": "ü%"}]
    assert expected == sorted(table.rows(), key=lambda row: row["n"])
    read = DeltaTable(str(tmp_path / "t"))
    assert 1 == len(list(read.to_pyarrow_dataset().get_fragments(ds.field("t") == "ü%")))
    assert {"t"} == set(read.metadata().partition_columns)
    with pytest.raises(TableRefused, match="partitioned by t, and the query by no column"):
        Table(tmp_path / "t", COLUMNS)


def test_the_partition_column_of_a_table_in_another_case(tmp_path: Path) -> None:
    """The log has the table's own name, by which readers look for the value."""
    columns = {"N": [0], "Day": ["x"]}
    write_deltalake(str(tmp_path / "t"), pa.table(columns), partition_by=["Day"])
    table = Table(tmp_path / "t", [field("n"), field("day", "string")], ["day"])
    table.plan = replace(table.plan, columns=(column("N", "n"),))

    table.append(QUERY, 0, pa.record_batch({"n": [1], "day": ["y"]}))

    assert {"Day": "y"} == table.adds()[-1]["partitionValues"]
    assert {(0, "x"), (1, "y")} == {(row["N"], row["Day"]) for row in table.rows()}


@pytest.mark.parametrize("name", ["a b", "a?b", "a#b", "ü", "a:b", "a%b", "a[b]*"])
def test_paths_with_odd_characters(tmp_path: Path, name: str) -> None:
    """delta-rs and the tasks agree on the place, and no directory of another name comes to be."""
    table = Table(tmp_path / name / "t", COLUMNS)
    table.append(QUERY, 0, rows(1))

    assert [1] == numbers(table)
    assert [name] == os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["a%20b", "a\\b", "a\nb"])
def test_paths_that_delta_rs_misreads(tmp_path: Path, name: str) -> None:
    """It would write to one directory and read from another. Nothing is made."""
    with pytest.raises(TableRefused, match="delta-rs can't write tables in"):
        Table(tmp_path / name / "t", COLUMNS)
    assert [] == os.listdir(tmp_path)


def test_the_disk_has_each_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the one that creates the table, and the one that adds columns: without one of them, a
    power cut would leave a table that nobody can read."""
    synced: list[str] = []
    sync = log.sync
    monkeypatch.setattr(log, "sync", lambda file, to: synced.append(file.stem) or sync(file, to))
    Table(tmp_path / "t", COLUMNS).append(QUERY, 0, rows(1))
    TableLog(tmp_path / "t", [*COLUMNS, field("at", "timestamp")], []).open(merge_schema=True)

    assert [f"{version:020}" for version in range(3)] == synced


def test_a_table_of_a_catalog_is_refused(tmp_path: Path) -> None:
    """delta-rs can't open it. The sentence has its reason."""
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["catalogManaged"],
        "writerFeatures": ["catalogManaged"],
    }
    bare(tmp_path / "t", protocol)

    with pytest.raises(TableRefused, match="catalog-managed"):
        TableLog(tmp_path / "t", COLUMNS, []).open(merge_schema=False)


def bare(directory: Path, protocol: dict[str, Any]) -> None:
    """A table without files."""
    (directory / "_delta_log").mkdir(parents=True)
    metadata = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": COLUMNS}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1,
    }
    actions = ({"protocol": protocol}, {"metaData": metadata})
    text = "\n".join(map(json.dumps, actions))
    (directory / "_delta_log" / f"{0:020}.json").write_text(text)


def test_features_are_named_before_the_first_file(tmp_path: Path) -> None:
    """delta-rs alone would refuse some with the commit, and ignore what others ask for."""
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}
    bare(tmp_path / "t", protocol)

    with pytest.raises(TableRefused, match="has the feature rowTracking"):
        TableLog(tmp_path / "t", COLUMNS, []).open(merge_schema=True)


def test_a_file_that_the_driver_does_not_see(tmp_path: Path) -> None:
    """An executor may have written on a disk of its own. Nothing is committed."""
    table = Table(tmp_path / "t", COLUMNS)
    (file,) = table.write(rows(1))

    for wrong in (replace(file, path="part-x.parquet"), replace(file, size=file.size + 1)):
        with pytest.raises(TableRefused, match="does not see the file"):
            table.log.commit(QUERY, 0, [wrong], lambda: None)
    assert [] == table.rows()


def test_without_delta_rs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    import sys

    monkeypatch.setitem(sys.modules, "deltalake", None)

    with pytest.raises(OptionError, match=r"pip install 'kfetch\[delta\]'"):
        TableLog(tmp_path / "t", COLUMNS, []).open(merge_schema=False)


def test_delta_rs_keeps_transaction_ids(tmp_path: Path) -> None:
    """Releases before 1.6 leave them out of the log: a repeated micro-batch would come twice."""
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": COLUMNS}))
    table = DeltaTable.create(str(tmp_path / "t"), schema)
    properties = CommitProperties(app_transactions=[Transaction(QUERY, 3)])
    table.create_write_transaction([], "append", schema, commit_properties=properties)

    assert 3 == DeltaTable(str(tmp_path / "t")).transaction_version(QUERY)


def test_statistics_let_readers_skip_files(tmp_path: Path) -> None:
    """delta-rs reads one of two files for a condition on a column that is no partition column."""
    table = Table(tmp_path / "t", COLUMNS)
    table.append(QUERY, 0, rows(1, 2))
    table.append(QUERY, 1, rows(10, 20))
    dataset = DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset()

    assert 1 == len(list(dataset.get_fragments(ds.field("n") > 5)))
    assert {"numRecords": 2, "minValues": {"n": 10, "t": "10"}} == {
        name: table.adds()[1]["stats"][name] for name in ("numRecords", "minValues")
    }


def test_readers_find_texts_beyond_the_first_plane(tmp_path: Path) -> None:
    """delta-rs misreads escapes of such characters. With wrong bounds it would skip the file."""
    table = Table(tmp_path / "t", [*COLUMNS, field("\U00020bb7")])
    batch = rows(1).set_column(1, "t", pa.array(["\U00020bb7野家"]))
    table.append(QUERY, 0, batch.append_column("\U00020bb7", pa.array([5])))
    dataset = DeltaTable(str(tmp_path / "t")).to_pyarrow_dataset()

    for known in (ds.field("t") == "\U00020bb7野家", ds.field("\U00020bb7") == 5):
        assert 1 == dataset.count_rows(known)


@pytest.mark.parametrize(
    "text",
    [
        "interval 1 week", "interval 10 days", "interval 240 hours", "interval 14400 minutes",
        "interval 864000 seconds", "interval 864000000 milliseconds",
        "interval 864000000000 microseconds", "interval 864000000000000 nanoseconds",
    ],
)  # fmt: skip
def test_delta_rs_reads_the_durations_that_kfetch_allows(tmp_path: Path, text: str) -> None:
    """After a checkpoint, it removes commits of 20 days ago. Without the property, they stay."""
    table = Table(tmp_path / "t", COLUMNS)
    for number in range(2):
        table.append(QUERY, number, rows(number))
    first, *_ = commits = sorted((table.directory / "_delta_log").glob("*.json"))
    DeltaTable(str(table.directory)).create_checkpoint()
    for file in commits:
        os.utime(file, (time.time() - 20 * 86_400,) * 2)
    DeltaTable(str(table.directory)).cleanup_metadata()
    assert first.exists()

    properties = {"delta.logRetentionDuration": text}
    DeltaTable(str(table.directory)).alter.set_table_properties(properties)
    table.log.look(merge_schema=False)
    DeltaTable(str(table.directory)).create_checkpoint()
    DeltaTable(str(table.directory)).cleanup_metadata()
    assert not first.exists()
