"""The files of statistics that workers, agents and the driver write."""

from __future__ import annotations

import json
import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from uuid import uuid4

import pytest

from kfetch.fetch import totals
from kfetch.fetch.stats import FetchStats
from kfetch.fetch.totals import read_stats, write_driver_stats, write_stats
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


def test_processes_with_one_pid(tmp_path: Path) -> None:
    """Two containers give their processes the same pid. Each process has a file of its own."""
    spec = find_spec(totals.__name__)
    assert spec is not None
    assert spec.loader is not None
    for records in (2, 3):
        process = module_from_spec(spec)
        spec.loader.exec_module(process)
        process.write_stats(str(tmp_path), "q", FetchStats(records=records))
        process.write_driver_stats(str(tmp_path), "q", FetchStats(), {})

    assert 5 == read_stats(tmp_path).records
    assert 2 == len(list((tmp_path / "driver").iterdir()))


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


def test_stats_of_another_release(tmp_path: Path) -> None:
    """Processes of two releases may write into one directory. The counts that this one knows add
    up, and others are left out."""
    (tmp_path / "q-1.json").write_text('{"records": 7, "records_of_a_later_release": 9}')
    write_stats(str(tmp_path), "q", FetchStats(records=1))

    assert FetchStats(records=8) == read_stats(tmp_path)


def test_stats_make_their_directory(tmp_path: Path) -> None:
    """The first process that writes creates the directory."""
    write_stats(str(tmp_path / "new" / "one"), "q", FetchStats(records=1))

    assert 1 == read_stats(tmp_path / "new" / "one").records


def test_old_stats_go(tmp_path: Path) -> None:
    """Files of readers and drivers go when nobody has changed them for a day. So do the drafts of
    killed processes. Other files stay: the directory may be the user's own.

    The first write of a process removes them. So a run that never ends has a limit, too.
    """
    new, old, late = uuid4().hex, uuid4().hex, uuid4().hex
    for name in (new, old):
        write_stats(str(tmp_path), name, FetchStats())
        write_driver_stats(str(tmp_path), name, FetchStats(), {})
        (tmp_path / f"{name}-1.123.tmp").touch()
    names = ["report.json", f"{old}.json", f"{old}-x.json", f"a{old}-1.json", f"{old}-1.json.gz"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / f"{old}-2.json").mkdir()
    for path in tmp_path.rglob("*"):
        if not path.name.startswith(new):
            os.utime(path, (time.time() - 90_000,) * 2)
    for _ in range(2):
        write_stats(str(tmp_path), late, FetchStats())
        write_driver_stats(str(tmp_path), late, FetchStats(), {})

    left = {path.name for path in tmp_path.iterdir()}
    mine = {path.name for path in (tmp_path / "driver").iterdir()}
    assert {late, new} == {name.split("-")[0] for name in mine}
    assert {*mine, f"{new}-1.123.tmp", "driver", f"{old}-2.json", *names} == left


def test_later_writes_look_at_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that writes after each read looks through the directory once."""
    write_stats(str(tmp_path), "q", FetchStats())
    with monkeypatch.context() as patch:
        patch.delattr(Path, "iterdir")
        write_stats(str(tmp_path), "q", FetchStats(records=1))

    assert 1 == read_stats(tmp_path).records


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
