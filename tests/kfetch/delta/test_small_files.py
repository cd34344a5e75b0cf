"""Small files are merged between micro-batches, if the table's property asks for it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st

from kfetch.delta import small_files
from kfetch.delta.small_files import SmallFiles
from kfetch.errors import LeaseLost
from tests.kfetch.delta.tables import Table, field

QUERY = "75a0c3a1-0000-4000-8000-000000000000"
_WANTED = 100


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four small files are too many."""
    monkeypatch.setattr(small_files, "_FILES", 4)


def table(directory: Path, partition_by: Any = (), **properties: str) -> Table:
    """A table of numbers and texts, with properties. delta-rs sets fewer of them than Spark."""
    Table(directory, [field("n"), field("t", "string")], partition_by)
    first = directory / "_delta_log" / f"{0:020}.json"
    asked = json.dumps({"delta.autoOptimize.autoCompact": "true"} | properties)
    first.write_text(first.read_text().replace('"configuration":{}', f'"configuration":{asked}'))
    return opened(directory, partition_by)


def opened(directory: Path, partition_by: Any = ()) -> Table:
    """A table as another run sees it."""
    return Table(directory, [field("n"), field("t", "string")], partition_by)


def append(to: Table, number: int, texts: list[str | None]) -> None:
    """A micro-batch of one row for each text, and what follows it."""
    rows = pa.record_batch(
        {"n": pa.array([number] * len(texts), pa.int64()), "t": pa.array(texts, pa.string())}
    )
    files = to.write(rows)
    assert to.log.commit(QUERY, number, files, lambda: None)
    to.log.merge_small_files(files, lambda: None)


def files_by_text(of: Table) -> Counter[str | None]:
    """How many files the log names for each value of the partition column."""
    added = pa.table(DeltaTable(str(of.directory)).get_add_actions(flatten=True))
    return Counter(added["partition.t"].to_pylist())


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.sampled_from([49, 50])), max_size=400))
def test_fifty_small_files_are_too_many(commits: list[dict[str, int]]) -> None:
    """Every fiftieth small file of a directory is returned. Files of half the size are large."""
    counts, seen = SmallFiles(), Counter[str]()
    for number, commit in enumerate(commits):
        sizes = {f"{directory}/{number}": size for directory, size in commit.items()}
        seen.update(directory for directory, size in commit.items() if size == 49)

        full = counts.add(sizes, lambda: sizes, _WANTED)  # noqa: B023

        small = {directory for directory, size in commit.items() if size == 49}
        assert set(full) == {f"{d}/{number}" for d in small if not seen[d] % 50}


@pytest.mark.usefixtures("few")
def test_a_partition_with_many_small_files_is_merged(tmp_path: Path) -> None:
    """Also those of NULL and of a text with a blank. Others stay, and so do the rows and the last
    micro-batch."""
    made = table(tmp_path / "t", ["t"])

    for number in range(4):
        append(made, number, ["a b", None, *(["x"] if number else [])])

    assert {"a b": 1, None: 1, "x": 3} == files_by_text(made)
    counted = Counter((row["n"], row["t"]) for row in made.rows())
    assert 11 == len(counted) == counted.total()
    assert made.log.has_batch(QUERY, 3)
    assert opened(tmp_path / "t", ["t"]).log.has_batch(QUERY, 3)
    assert not made.append(QUERY, 3, pa.record_batch({"n": [7], "t": ["x"]}))


@pytest.mark.usefixtures("few")
def test_the_files_of_earlier_runs_count(tmp_path: Path) -> None:
    """Each run writes two files only, and the second run merges all four."""
    made = table(tmp_path / "t")
    append(made, 0, ["a"])
    append(made, 1, ["a"])

    made = opened(tmp_path / "t")
    append(made, 2, ["a"])
    append(made, 3, ["a"])

    assert 1 == len(DeltaTable(str(made.directory)).file_uris())
    assert [0, 1, 2, 3] == sorted(row["n"] for row in made.rows())


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("codec", "written"), [("lz4", "LZ4"), ("none", "UNCOMPRESSED"), ("gzip", "GZIP")]
)
def test_merged_files_have_the_codec_of_the_table(tmp_path: Path, codec: str, written: str) -> None:
    """The table's property decides, as for other files."""
    made = table(tmp_path / "t", **{"delta.parquet.compression.codec": codec})
    for number in range(4):
        append(made, number, ["a"])

    (merged,) = DeltaTable(str(made.directory)).file_uris()

    assert written == pq.ParquetFile(merged).metadata.row_group(0).column(0).compression


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "properties",
    [{"delta.autoOptimize.autoCompact": "false"}, {"delta.targetFileSize": "100"}],
    ids=["not asked for", "large files"],
)
def test_others_are_not_merged(tmp_path: Path, properties: dict[str, str]) -> None:
    """Without the property, and if the files are large enough."""
    made = table(tmp_path / "t", **properties)

    for number in range(5):
        append(made, number, ["a"])

    assert 5 == len(DeltaTable(str(made.directory)).file_uris())


@pytest.mark.usefixtures("few")
def test_a_merge_that_fails_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another writer has deleted rows meanwhile. The query goes on, and a later commit merges."""
    made = table(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr("deltalake.table.TableOptimizer.compact", _conflict)
        for number in range(4):
            append(made, number, ["a"])
    assert f"small files of {made.directory} were not merged: a conflict" in caplog.text

    for number in range(4, 8):
        append(made, number, ["a"])

    assert 1 == len(DeltaTable(str(made.directory)).file_uris())
    assert list(range(8)) == sorted(row["n"] for row in made.rows())


@pytest.mark.usefixtures("few")
def test_a_process_without_its_lease_merges_nothing(tmp_path: Path) -> None:
    """``check`` comes before the merge, and its error ends the query."""
    made = table(tmp_path / "t")
    for number in range(3):
        append(made, number, ["a"])
    files = made.write(pa.record_batch({"n": [3], "t": ["a"]}))
    made.log.commit(QUERY, 3, files, lambda: None)

    def lost() -> None:
        raise LeaseLost("the lease has ended", action="nothing")

    with pytest.raises(LeaseLost):
        made.log.merge_small_files(files, lost)

    assert 4 == len(DeltaTable(str(made.directory)).file_uris())


def _conflict(*_: object, **__: object) -> None:
    raise CommitFailedError("a conflict")
