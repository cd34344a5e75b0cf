"""The supervisor's database: its journal, and what other versions of kfetch find in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.supervise import database
from kfetch_jobs.supervise.job_state import JobState, Order, Phase
from kfetch_jobs.supervise.store import Store, supervisor_directory
from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock
from kfetch_jobs.util import files
from tests.kfetch_jobs.stage import change_database


def rows(storage: Path, question: str) -> list[tuple[Any, ...]]:
    """Ask the database as another process would."""
    with closing(sqlite3.connect(supervisor_directory(storage) / "kfetch.db")) as db:
        return db.execute(question).fetchall()


def journal(storage: Path) -> str:
    return str(rows(storage, "PRAGMA journal_mode")[0][0])


def mount(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(database, "file_system_of", lambda path: kind)


@pytest.mark.parametrize(("kind", "mode"), [("ext4", "wal"), ("", "wal"), ("nfs4", "delete")])
def test_the_journal_suits_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: str
) -> None:
    """A write-ahead log needs memory that processes share, which a network's files can't be. A
    rollback journal needs locks only."""
    mount(monkeypatch, kind)
    with Store.of(tmp_path) as first, Store.of(tmp_path) as second:
        first.save({"a": JobState(phase=Phase.WAITING, since_s=1.0)})
        second.add_order("a", Order.STOP, 2.0)

        assert mode == journal(tmp_path)
        assert ["a"] == list(second.states())
        assert 1 == len(first.waiting_orders())


def test_a_database_that_moves_keeps_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database with a write-ahead log, as the previous release makes on every file system, gets
    a rollback journal; while another process has it open, both go on as before."""
    with Store.of(tmp_path) as store:
        store.save({"a": JobState(phase=Phase.WAITING, since_s=1.0)})
        mount(monkeypatch, "nfs")
        monkeypatch.setattr(database, "_BUSY_S", 0.05)
        with Store.of(tmp_path) as second:
            assert ("wal", ["a"]) == (journal(tmp_path), list(second.states()))
    with Store.of(tmp_path) as store:
        assert ("delete", ["a"]) == (journal(tmp_path), list(store.states()))


def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names the file system, and what to do."""

    class NoLocks(sqlite3.Connection):
        def execute(self, *words: object) -> sqlite3.Cursor:
            error = sqlite3.OperationalError("locking protocol")
            error.sqlite_errorname = "SQLITE_PROTOCOL"
            raise error

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=NoLocks))
    mount(monkeypatch, "fuse.s3fs")
    sentence = (
        rf"{supervisor_directory(tmp_path)}/kfetch.db is on a file system \(fuse.s3fs\) where "
        "SQLite cannot lock files: locking protocol: name a storage on a local disk"
    )
    with pytest.raises(SupervisorError, match=sentence):
        Store.of(tmp_path)


def test_a_lock_file_that_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``kfetch up`` says so in a sentence too."""

    def flock(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", flock)
    with (
        pytest.raises(SupervisorError, match="cannot be locked: No locks available: name a stor"),
        hold_supervisor_lock(tmp_path),
    ):
        pass


def test_the_previous_release_reads_the_database(tmp_path: Path) -> None:
    """It reads all columns of its tables, and all keys of a state, so these do not grow."""
    with Store.of(tmp_path) as store:
        run = store.begin({"a": JobState(phase=Phase.RUNNING, since_s=1.0)}, 1.0)["a"]
        store.started(run, 7, 1.0, "boot/1")
        columns = {
            table: [row[1] for row in rows(tmp_path, f"PRAGMA table_info({table})")]
            for table in ("runs", "supervisor")
        }
        state = rows(tmp_path, "SELECT state FROM jobs")[0][0]

        assert "boot/1" == store.open_runs()[0].process_start
    assert columns == {
        "runs": [
            *("id", "job", "started_s", "pid", "process_started_s", "ended_s", "kind", "sentence"),
            *("batches", "rows"),
        ],
        "supervisor": ["one", "pid", "process_started_s", "environment", "started_s", "ended_s"],
    }
    assert state == (
        '{"phase": "running", "since_s": 1.0, "due_s": null, "forced": false, "failures": 0, '
        '"started_s": null, "finished_s": null, "then": null, "asked": false, "queued": false, '
        '"sentence": ""}'
    )


def test_a_state_of_a_later_kfetch(tmp_path: Path) -> None:
    """Keys that this kfetch does not know are left out."""
    with Store.of(tmp_path) as store:
        state = JobState(phase=Phase.WAITING, since_s=1.0)
        store.save({"a": state})
        change_database(tmp_path, "UPDATE jobs SET state = replace(state, '{', '{\"later\": 1, ')")

        assert {"a": state} == store.states()


def test_orders_of_the_previous_release(tmp_path: Path) -> None:
    """Its orders have no end. Its commands give orders to a supervisor of this release."""
    with Store.of(tmp_path) as store:
        change_database(tmp_path, "ALTER TABLE orders DROP COLUMN ends_s")
        insert = "INSERT INTO orders (job, asked, at_s) VALUES (?, ?, ?)"
        change_database(tmp_path, insert, "a", "stop", 1.0)
    with Store.of(tmp_path) as store:
        change_database(tmp_path, insert, "b", "start", 2.0)

        assert [("a", Order.STOP, None), ("b", Order.START, None)] == [
            (waiting.job, waiting.order, waiting.ends_s) for waiting in store.waiting_orders()
        ]


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    """SQLite has rolled the transaction back by itself. A second roll-back must not hide why."""
    with Store.of(tmp_path) as store:
        store._db.execute("PRAGMA max_page_count = 1")

        with pytest.raises(SupervisorError, match="database or disk is full"):
            store.save({str(n): JobState(phase=Phase.WAITING, since_s=1.0) for n in range(1000)})


def test_a_commit_that_fails_ends_its_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit waits for readers if the journal is a rollback journal. When it gives up, the next
    write succeeds after the reader has gone."""
    mount(monkeypatch, "nfs4")
    monkeypatch.setattr(database, "_BUSY_S", 0.1)
    with Store.of(tmp_path) as store:
        with closing(sqlite3.connect(supervisor_directory(tmp_path) / "kfetch.db")) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM jobs").fetchall()
            with pytest.raises(SupervisorError, match="locked"):
                store.add_order("a", Order.STOP, 0.0)
        store.add_order("b", Order.STOP, 0.0)

        assert ["b"] == [one.job for one in store.waiting_orders()]
