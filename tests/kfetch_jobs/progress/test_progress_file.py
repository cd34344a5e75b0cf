"""The progress file as those who look read it: its last line, and how long a job has waited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kfetch.admin.checkpoint import Checkpoint
from kfetch_jobs.offsets import job_report
from kfetch_jobs.progress.batch import Batch, RowsDeleted, parse_line, readable_entries
from kfetch_jobs.progress.progress_file import (
    append_entry,
    append_replayed,
    last_batch,
    read_batches,
)

DONE = Batch(batch=3, started="", finished=100.0, rows=1, seconds=1.0, end=10, latest=15, lag_s=2.5)
IDLE = Batch(batch=3, started="", finished=100.0, rows=1, seconds=1.0, end=10, latest=10)


@pytest.mark.parametrize(
    ("batch", "behind", "waited"),
    [(DONE, 5, 12.5), (DONE, 0, 0.0), (IDLE, 5, 0.0), (None, 5, None), (None, 0, 0.0)],
)
def test_how_long_it_has_been_waiting(
    batch: Batch | None, behind: int, waited: float | None
) -> None:
    """What was waiting after the last micro-batch waits still; what came since, nobody knows."""
    last_one = Checkpoint(path=Path("x"), committed=3)
    assert waited == job_report.waiting_s(batch, last_one, behind, now=110.0)


def test_progress_of_another_micro_batch_proves_nothing() -> None:
    """The progress file is behind the checkpoint after a kill."""
    last_one = Checkpoint(path=Path("x"), committed=4)
    assert job_report.waiting_s(DONE, last_one, behind=5, now=110.0) is None


def test_the_last_line_of_progress(tmp_path: Path) -> None:
    """The end of a long file is enough, also behind a line that a kill has cut off."""
    path = tmp_path / "progress.jsonl"
    assert last_batch(tmp_path) is None
    for _ in range(50):
        append_entry(tmp_path, IDLE)
    append_entry(tmp_path, DONE)
    assert DONE == last_batch(tmp_path)
    with path.open("a") as file:
        file.write('{"batch": 4, "st')
    assert DONE == last_batch(tmp_path)
    path.rename(tmp_path / "progress.1.jsonl")
    assert DONE == last_batch(tmp_path)


def test_a_replay_forgets_what_it_deleted(tmp_path: Path) -> None:
    """A replay takes the micro-batches that ended beyond its offsets, also those of a former
    replay. Without such a micro-batch it says nothing."""
    path = tmp_path / "progress.jsonl"

    def replayed(end: int) -> tuple[int, int] | None:
        append_replayed(tmp_path, end, move=20)
        entry = parse_line(path.read_text().splitlines(keepends=True)[-1])
        return (entry.undone_from, entry.move) if isinstance(entry, RowsDeleted) else None

    for number in range(10):
        append_entry(tmp_path, replace(IDLE, batch=number, end=100 * (number + 1)))
    assert (None, (5, 20)) == (replayed(1000), replayed(500))
    for number in (11, 12):  # batch 10 is the replay
        append_entry(tmp_path, replace(IDLE, batch=number, end=100 * (number - 5)))
    assert ((12, 20), (3, 20)) == (replayed(600), replayed(350))


def test_dead_letters_are_a_micro_batchs_own(tmp_path: Path) -> None:
    """A line has how many of its records can't be decoded; one of an earlier kfetch has none."""
    path = tmp_path / "progress.jsonl"
    append_entry(tmp_path, replace(IDLE, dead_letters=3))
    append_entry(tmp_path, IDLE)
    counted, none = map(json.loads, path.read_text().splitlines())
    # A supervisor that is up since before an update knows no such key.
    assert (3, False) == (counted["dead_letters"], "dead_letters" in none)

    assert [3, 0] == [batch.dead_letters for batch in read_batches(tmp_path)]


def test_a_line_of_a_later_kfetch(tmp_path: Path) -> None:
    """It is read without what this one does not know; a line that lacks something is not."""
    path = tmp_path / "progress.jsonl"
    append_entry(tmp_path, DONE)
    line = path.read_text()
    path.write_text(line.replace("{", '{"later": [1], ', 1) + line.replace('"end": 10, ', ""))

    assert [DONE] == read_batches(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        '{"batch": 4, "st}',
        '{"batch": 4}',
        "\\u007b}",
        '{"lag": 0, "batch": 4, "started": "", "finished": "x", "rows": 1, "seconds": 1, "end": 1, '
        '"latest": 1}',
        '{"lag": 0, "batch": 4, "started": "", "finished": NaN, "rows": 1, "seconds": 1, "end": 1, '
        '"latest": 1}',
        '{"lag": 0, "batch": 4, "started": "", "finished": 1, "rows": 1, "seconds": 1, "end": 1, '
        '"latest": 1, "phases": 7}',
        '{"lag": 0, "batch": 4, "started": "", "finished": 1, "rows": 1, "seconds": 1, "end": 1, '
        '"latest": 1, "dead_letters": "many"}',
    ],
)
def test_a_damaged_line_costs_itself_alone(tmp_path: Path, damage: str) -> None:
    """Whatever a disk or an editor has made of a line, those around it are read."""
    path = tmp_path / "progress.jsonl"
    append_entry(tmp_path, IDLE)
    with path.open("ab") as file:
        file.write(damage.encode() + b"\n\xff\xfe}\n")
    append_entry(tmp_path, DONE)

    assert [IDLE, DONE] == read_batches(tmp_path)
    assert DONE == last_batch(tmp_path)


@pytest.mark.parametrize("number", ["1e999", "NaN", "null", '"x"'])
def test_a_damaged_line_about_a_replay(number: str) -> None:
    """It says nothing, and does not stop its reader."""
    lines = [f'{{"{key}": {number}}}\n' for key in ("undone_from", "restored")]

    assert not list(readable_entries(lines))
