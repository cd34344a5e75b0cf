"""The files of one task: names, sizes, row groups, limits, and what a failure leaves."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kfetch.delta.files import TaskFiles, written_files
from tests.kfetch.delta.tables import MIB, by_duckdb, column, files_of, plan_of, room_for

BY_DAY = (column("day"),)


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    """A batch of numbers that no encoding shrinks below two bytes each."""
    return pa.record_batch({"n": pa.array(range(first, first + count), pa.int64())})


def parquet_files(directory: Path) -> list[str]:
    """The files below a directory."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*.parquet"))


def test_one_file_with_few_row_groups(tmp_path: Path) -> None:
    """Small batches share a row group. The row says what the file has."""
    batches = [numbers(1000, 1000 * n) for n in range(20)]
    (file,) = files_of(batches, plan_of(tmp_path, ["n"]))

    assert [file.path] == parquet_files(tmp_path)
    assert (20_000, {}) == (file.rows, file.partitions)
    assert (tmp_path / file.path).stat().st_size == file.size
    footer = pq.read_metadata(tmp_path / file.path)
    assert (1, "ZSTD") == (footer.num_row_groups, footer.row_group(0).column(0).compression)
    assert [(20_000, 19_999)] == by_duckdb(tmp_path, "SELECT count(*), max(n) FROM files")


def test_rows_of_reused_memory(tmp_path: Path) -> None:
    """The caller may overwrite a batch behind the call, as the agent does with its segments."""
    memory = bytearray((1).to_bytes(8, "little") * 100)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in (1, 2, 3):
            memory[:] = number.to_bytes(8, "little") * 100
            column = pa.Array.from_buffers(pa.int64(), 100, [None, pa.py_buffer(memory)])
            yield pa.record_batch({"n": column})

    files_of(batches(), plan_of(tmp_path, ["n"]))

    found = by_duckdb(tmp_path, "SELECT n, count(*) FROM files GROUP BY n ORDER BY n")
    assert [(1, 100), (2, 100), (3, 100)] == found


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    """A file that has the table's size is complete as soon as its row group is written."""
    plan = plan_of(tmp_path, ["n"], row_group_bytes=MIB, file_bytes=MIB, codec="none")
    with TaskFiles(plan, Path(plan.directory)) as files:
        found = [row for n in range(40) for row in files.add(numbers(50_000, 50_000 * n))]
        early = len(found)
        found += list(files.complete())

    assert early > 5
    assert early + 1 == len(found) == len(parquet_files(tmp_path))
    assert 2_000_000 == sum(row["rows"][0].as_py() for row in found)
    assert all(MIB <= row["size"][0].as_py() < 3 * MIB for row in found[:-1])


def test_rows_in_memory_have_a_limit(tmp_path: Path) -> None:
    """All partitions together keep at most a row group's bytes, and one batch more."""
    plan = plan_of(tmp_path, ["n", "day"], BY_DAY, row_group_bytes=MIB)
    batch = pa.record_batch({"n": list(range(10_000)), "day": [str(n % 7) for n in range(10_000)]})
    peak = 0
    with TaskFiles(plan, Path(plan.directory)) as files:
        for _ in range(60):
            list(files.add(batch))
            peak = max(peak, files.pending_bytes)
        assert 7 == len(list(files.complete()))

    assert MIB // 2 < peak < MIB + batch.nbytes


def test_rows_in_memory_take_no_more_than_is_counted(tmp_path: Path) -> None:
    """A copy has memory of its own size, and gives it back when its row group is written."""
    plan, pool = plan_of(tmp_path, ["n"], row_group_bytes=MIB), pa.system_memory_pool()
    before, peak = pool.bytes_allocated(), 0
    with TaskFiles(plan, Path(plan.directory)) as files:
        for number in range(60):
            list(files.add(numbers(10_000, 10_000 * number)))
            held = pool.bytes_allocated() - before
            assert files.pending_bytes <= held <= 1.01 * files.pending_bytes
            peak = max(peak, held)
        list(files.complete())

    assert MIB // 2 < peak < 2 * MIB
    assert before == pool.bytes_allocated()


def test_footers_in_memory_have_a_limit(tmp_path: Path) -> None:
    """Many partitions of many columns make small row groups, and each has its part in a footer. A
    file is complete before the footers of all open files exceed a row group's bytes."""
    names = [f"c{n}" for n in range(100)]
    plan = plan_of(tmp_path, [*names, "day"], BY_DAY, row_group_bytes=MIB // 2)
    batch = pa.record_batch(
        {name: list(range(200)) for name in names} | {"day": [str(n % 8) for n in range(200)]}
    )
    most = 0
    with TaskFiles(plan, Path(plan.directory)) as files:
        found = []
        for _ in range(20):
            found += files.add(batch)
            most = max(most, files._footer_bytes)
        found += files.complete()

    assert MIB // 4 < most < MIB // 2
    assert 8 < len(found)
    assert 4000 == sum(row["rows"][0].as_py() for row in found)


def test_open_files_have_a_limit(tmp_path: Path) -> None:
    """200 partitions need no 200 descriptors. No row is lost when files are closed."""
    plan = plan_of(tmp_path, ["n", "day"], BY_DAY, row_group_bytes=MIB // 8)
    before, rows = len(os.listdir("/proc/self/fd")), range(200 * 256)
    batch = pa.record_batch({"n": list(rows), "day": [str(n // 256) for n in rows]})
    with TaskFiles(plan, Path(plan.directory)) as files:
        found = list(files.add(batch))
        assert 64 >= len(os.listdir("/proc/self/fd")) - before
        found += files.complete()

    assert 200 == len(found)
    assert len(rows) == sum(row["rows"][0].as_py() for row in found)
    assert before >= len(os.listdir("/proc/self/fd"))


def test_partition_columns_are_not_in_the_files(tmp_path: Path) -> None:
    """A file has the other columns. Its directory is for people."""
    batch = pa.record_batch({"n": [1, 2], "day": ["2026-11-25", None]})
    found = files_of([batch], plan_of(tmp_path, ["n", "day"], BY_DAY))

    assert [{"day": "2026-11-25"}, {"day": None}] == [file.partitions for file in found]
    assert found[0].path.startswith("day=2026-11-25/part-")
    assert ["n"] == pq.read_schema(tmp_path / found[0].path).names


def test_columns_get_the_names_of_the_table(tmp_path: Path) -> None:
    """In the table's order and spelling. Other columns stay out."""
    plan = replace(plan_of(tmp_path, []), columns=(column("B", "b"), column("a")))
    (file,) = files_of([pa.record_batch({"a": [1], "x": [2], "b": [3]})], plan)

    assert {"B": [3], "a": [1]} == pq.read_table(tmp_path / file.path).to_pydict()


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "brotli", "lz4", "none"])
def test_codecs(tmp_path: Path, codec: str) -> None:
    """DuckDB reads each of them."""
    files_of([numbers(1000)], plan_of(tmp_path, ["n"], codec=codec))

    assert [(1000,)] == by_duckdb(tmp_path, "SELECT count(n) FROM files")


def test_a_failed_task_removes_what_is_not_complete(tmp_path: Path) -> None:
    """Complete files stay for VACUUM: Spark may have their rows. No half file is left."""
    plan = plan_of(tmp_path, ["n"], row_group_bytes=MIB, file_bytes=MIB, codec="none")

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            yield numbers(50_000, 50_000 * number)
        raise OSError("the broker is gone")

    with pytest.raises(OSError, match="gone"):
        list(written_files(batches(), [plan], {}))

    for path in parquet_files(tmp_path):
        assert pq.read_metadata(tmp_path / path).num_rows > 0
    assert 1 <= len(parquet_files(tmp_path)) <= 3


@pytest.mark.parametrize("room", [0, 100, MIB])
def test_a_full_disk(tmp_path: Path, room: int) -> None:
    """The task fails with the system's reason, whether a row group or the footer has no room. It
    leaves no half file. With room again, it writes all rows."""
    plan = plan_of(tmp_path, ["n"], row_group_bytes=MIB, codec="none")
    batches = [numbers(50_000, 50_000 * number) for number in range(10)]
    with room_for(room), pytest.raises(OSError, match="File too large"):
        files_of(batches, plan)
    assert [] == parquet_files(tmp_path)

    files_of(batches, plan)
    assert [(500_000,)] == by_duckdb(tmp_path, "SELECT count(DISTINCT n) FROM files")


def test_a_failed_task_says_nothing_of_its_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer without its file is not completed when it is collected. That would be a traceback
    behind the task's own error."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: ignored.append(found.exc_value))
    plan = plan_of(tmp_path, ["n"], row_group_bytes=MIB)
    with TaskFiles(plan, Path(plan.directory)) as files:
        for number in range(4):
            list(files.add(numbers(50_000, 50_000 * number)))
    assert [] == parquet_files(tmp_path)
    del files
    gc.collect()

    assert [] == ignored


def test_no_rows_no_file(tmp_path: Path) -> None:
    """A range with gaps alone, of compaction or of transactions."""
    assert [] == files_of([], plan_of(tmp_path, ["n"]))
    assert [] == files_of([numbers(0)], plan_of(tmp_path, ["n"]))
    assert [] == parquet_files(tmp_path)


def test_good_records_and_dead_letters(tmp_path: Path) -> None:
    """Each goes to its own table, also from batches that have one kind alone."""
    dead = pa.struct([("error", pa.string())])
    batches = [
        pa.record_batch({"n": numbers, "deadLetter": pa.array(letters, dead)})
        for numbers, letters in (
            ([1, 2, 3], [None, {"error": "a"}, None]),
            ([4, 5], [None, None]),
            ([6], [{"error": None}]),
        )
    ]
    plans = [
        plan_of(tmp_path / "good", ["n"], records="good"),
        replace(
            plan_of(tmp_path / "dead", ["n"], records="dead"),
            columns=(column("n"), column("error", "deadLetter.error")),
        ),
    ]
    found = [row for batch in written_files(batches, plans, {}) for row in batch.to_pylist()]

    assert [str(tmp_path / "good"), str(tmp_path / "dead")] == [row["table"] for row in found]
    assert [4, 2] == [row["rows"] for row in found]
    assert [(1,), (3,), (4,), (5,)] == by_duckdb(
        tmp_path / "good", "SELECT n FROM files ORDER BY n"
    )
    letters = by_duckdb(tmp_path / "dead", "SELECT n, error FROM files ORDER BY n")
    assert [(2, "a"), (6, None)] == letters
