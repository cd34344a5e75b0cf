"""Opens the supervisor's database: its tables, and a journal that suits its file system."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.util.mounts import file_system_of, is_shared

_VERSION = 1
_BUSY_S = 10.0
_NO_LOCKS = ("SQLITE_PROTOCOL", "SQLITE_IOERR", "SQLITE_CANTOPEN")
"""SQLite's errors on a file system that has no locks."""

_SCHEMA = """
CREATE TABLE jobs (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL
);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    started_s REAL NOT NULL,
    pid INTEGER,
    process_started_s REAL,
    ended_s REAL,
    kind TEXT,
    sentence TEXT NOT NULL DEFAULT '',
    batches INTEGER NOT NULL DEFAULT 0,
    rows INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_by_job ON runs (job, id);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job TEXT NOT NULL,
    asked TEXT NOT NULL,
    at_s REAL NOT NULL,
    answer TEXT
);
CREATE TABLE supervisor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    pid INTEGER NOT NULL,
    process_started_s REAL NOT NULL,
    environment TEXT,
    started_s REAL NOT NULL,
    ended_s REAL
);
"""

_ADDED_TABLES = """
CREATE TABLE IF NOT EXISTS process_starts (
    pid INTEGER NOT NULL,
    process_started_s REAL NOT NULL,
    start TEXT NOT NULL,
    PRIMARY KEY (pid, process_started_s)
);
CREATE TABLE IF NOT EXISTS shared_state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    history TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    change INTEGER NOT NULL
);
"""
"""Tables of their own, because the previous release reads all columns of ``runs`` and
``supervisor``: it may run the supervisor while a command of this release reads its database."""
_ADDED_COLUMNS = {"ends_s": "REAL", "shared_id": "TEXT"}
"""Columns of ``orders``."""


def open_database(path: Path) -> sqlite3.Connection:
    """Open the database, and make it if there is none. Raises SupervisorError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with database_errors(path):
        _make_private(path)
        db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        try:
            db.row_factory = sqlite3.Row
            _choose_journal(db, shared=is_shared(file_system_of(path.parent)))
            _prepare(db, path)
        except BaseException:
            db.close()
            raise
    return db


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Raises SupervisorError for errors of SQLite and of the file system."""
    try:
        yield
    except (sqlite3.Error, OSError) as cause:
        raise SupervisorError(_sentence(path, cause)) from cause


def _sentence(path: Path, cause: sqlite3.Error | OSError) -> str:
    kind = file_system_of(path.parent)
    if is_shared(kind) and getattr(cause, "sqlite_errorname", "").startswith(_NO_LOCKS):
        return (
            f"{path} is on a file system ({kind}) where SQLite cannot lock files: {cause}: "
            "name a storage on a local disk"
        )
    return f"{path} cannot be used: {cause}"


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commit the block, or roll it back if it raises."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")  # waits for readers if the journal is a rollback journal
    except BaseException:
        if db.in_transaction:  # on a full disk, SQLite has rolled back
            db.execute("ROLLBACK")
        raise


def _make_private(path: Path) -> None:
    """Let only the owner read the file.

    This never opens an existing file: closing it would drop the locks that other connections of
    this process hold on it.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        with suppress(PermissionError):
            path.chmod(0o600)


def _choose_journal(db: sqlite3.Connection, *, shared: bool) -> None:
    """Use a write-ahead log, or a rollback journal on a file system that may be shared.

    Processes share the index of a write-ahead log as mapped memory. That needs one machine and a
    local file system (https://sqlite.org/wal.html). All processes must use the same journal: while
    another one has the database open, its journal stays.
    """
    mode = "delete" if shared else "wal"
    if _journal(db) != mode:
        try:
            db.execute(f"PRAGMA journal_mode={mode}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY":
                raise
    # Without a flush at each commit, only a write-ahead log survives a crash of the machine.
    db.execute(f"PRAGMA synchronous={'NORMAL' if _journal(db) == 'wal' else 'FULL'}")


def _journal(db: sqlite3.Connection) -> str:
    return str(db.execute("PRAGMA journal_mode").fetchone()[0])


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    if _version(db) == _VERSION and _has_added_tables(db) and not _missing_columns(db):
        return  # without waiting for a writer
    with transaction(db):
        version = _version(db)
        if version == 0:
            _execute_all(db, _SCHEMA)
            db.execute(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            raise SupervisorError(
                f"{path} is of version {version}, and this kfetch knows {_VERSION}: "
                "update kfetch, or name another storage"
            )
        _execute_all(db, _ADDED_TABLES)
        for name in _missing_columns(db):
            db.execute(f"ALTER TABLE orders ADD COLUMN {name} {_ADDED_COLUMNS[name]}")


def _execute_all(db: sqlite3.Connection, statements: str) -> None:
    for statement in filter(str.strip, statements.split(";")):
        db.execute(statement)


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _has_added_tables(db: sqlite3.Connection) -> bool:
    query = "SELECT count(*) FROM sqlite_master WHERE name IN ('process_starts', 'shared_state')"
    return int(db.execute(query).fetchone()[0]) == _ADDED_TABLES.count("CREATE TABLE")


def _missing_columns(db: sqlite3.Connection) -> list[str]:
    present = {row["name"] for row in db.execute("SELECT name FROM pragma_table_info('orders')")}
    return [name for name in _ADDED_COLUMNS if name not in present]
