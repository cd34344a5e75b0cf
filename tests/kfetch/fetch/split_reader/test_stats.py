"""The files in which workers tell what reading has cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfetch.fetch import stats
from tests.kfetch.fetch.split_reader.helpers import T0, T1, part, query, rows
from tests.kfetch.wire.little import LittleKafka


def test_stats_file(kafka: LittleKafka, tmp_path: Path) -> None:
    """Each worker keeps a file with its totals current."""
    reading = query(kafka, kfetch__statsDirectory=str(tmp_path))
    rows(reading.read([part(kafka, T0, 0, 6)]))
    (path,) = tmp_path.iterdir()

    assert stats.read(tmp_path) == reading.stats()
    assert 6 == json.loads(path.read_text())["records"]
    rows(reading.read([part(kafka, T1, 0, 4)]))
    assert 10 == stats.read(tmp_path).records


def test_stats_of_all_workers(tmp_path: Path) -> None:
    """The files of a directory add up, over workers and queries."""
    for name in ("a", "b"):
        stats.write(str(tmp_path), name, stats.FetchStats(records=2, reply_bytes=3))

    assert stats.FetchStats(records=4, reply_bytes=6) == stats.read(tmp_path)


def test_stats_make_their_directory(tmp_path: Path) -> None:
    """The first worker that writes makes the directory."""
    stats.write(str(tmp_path / "new" / "one"), "q", stats.FetchStats(records=1))

    assert 1 == stats.read(tmp_path / "new" / "one").records


def test_stats_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Statistics that can't be written are logged, and fail nobody."""
    (tmp_path / "file").touch()
    stats.write(str(tmp_path / "file"), "q", stats.FetchStats())

    assert "fetch statistics can't be written" in caplog.text
