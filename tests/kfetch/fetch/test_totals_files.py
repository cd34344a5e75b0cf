"""The files of statistics that workers, agents and the driver write."""

from __future__ import annotations

import json
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import read_stats, write_stats
from tests.kfetch.fetch.helpers import T0, T1, part, query, rows
from tests.kfetch.wire.little import LittleKafka


def test_stats_file(kafka: LittleKafka, tmp_path: Path) -> None:
    """A worker replaces its file with the current totals after each read."""
    inline_query = query(kafka, kfetch__statsDirectory=str(tmp_path))
    rows(inline_query.read([part(kafka, T0, 0, 6)]))
    (path,) = tmp_path.iterdir()

    assert read_stats(tmp_path) == inline_query.stats()
    assert 6 == json.loads(path.read_text())["records"]
    rows(inline_query.read([part(kafka, T1, 0, 4)]))
    assert 10 == read_stats(tmp_path).records


def test_stats_of_all_workers(tmp_path: Path) -> None:
    """read_stats adds up all files of a directory, over processes and queries."""
    for name in ("a", "b"):
        write_stats(str(tmp_path), name, FetchStats(records=2, reply_bytes=3))

    assert FetchStats(records=4, reply_bytes=6) == read_stats(tmp_path)


def test_stats_of_an_earlier_release(tmp_path: Path) -> None:
    """An earlier release's file is read. Its keys and zeros are still those that kfetch writes."""
    zeros = (
        '{"full_requests": 0, "full_request_bytes": 0, "incremental_requests": 0, '
        '"incremental_request_bytes": 0, "incremental_partitions": 0, "reply_bytes": 0, '
        '"other_rack_bytes": 0, "wait_s": 0.0, "records": 0, "batches_skipped": 0, "undecoded": 0, '
        '"undecoded_kinds": {}, "sampled": 0, "unknown_fields": {}, "decode_s": 0.0, '
        '"starved_s": 0.0, "sessions_opened": 0, "sessions_lost": 0, "sessions_refused": 0, '
        '"sessions_closed": 0, "connections_opened": 0}'
    )
    (tmp_path / "q-1.json").write_text(zeros.replace('"records": 0', '"records": 7'))
    assert FetchStats(records=7) == read_stats(tmp_path)
    write_stats(str(tmp_path / "new"), "q", FetchStats())
    (path,) = (tmp_path / "new").iterdir()
    assert zeros == path.read_text()


def test_stats_make_their_directory(tmp_path: Path) -> None:
    """The first process that writes creates the directory."""
    write_stats(str(tmp_path / "new" / "one"), "q", FetchStats(records=1))

    assert 1 == read_stats(tmp_path / "new" / "one").records


def test_stats_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If a file can't be written, the writer logs a warning and raises nothing."""
    (tmp_path / "file").touch()
    write_stats(str(tmp_path / "file"), "q", FetchStats())

    assert "can't be written" in caplog.text


def test_statistics_written_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Threads that write one query's file at once don't remove each other's draft."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: write_stats(str(tmp_path), "q", FetchStats(records=n)), range(400)))

    assert [] == caplog.messages
    assert 1 == len(list(tmp_path.iterdir()))


def test_a_full_disk_keeps_no_drafts(tmp_path: Path) -> None:
    """A file of statistics that can't be written whole leaves nothing behind."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)  # Python ignores SIGXFSZ
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        write_stats(str(tmp_path), "q", FetchStats())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert [] == [*tmp_path.iterdir()]
