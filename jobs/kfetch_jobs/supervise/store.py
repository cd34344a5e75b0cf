"""What a supervisor remembers, in SQLite: jobs' states, their runs, orders that wait for it.

The supervisor writes states and runs; commands write orders and read the rest, whether a supervisor
runs or not. Times are seconds since 1970. The file is in the project's storage, which is local.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.run.exit_kind import ExitKind
from kfetch_jobs.supervise.state_machine import JobState, Order, Phase

__all__ = ["Run", "Store", "SupervisorRecord", "WaitingOrder", "supervisor_directory"]

RUNS_MAX = 1000
"""remembered for each job"""
_ORDERS_MAX = 1000
"""waiting for a supervisor; more are a script gone wild"""
_VERSION = 1
_BUSY_S = 10.0

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


def supervisor_directory(storage: Path) -> Path:
    """Where a supervisor keeps its files."""
    return storage / ".supervisor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One life of a job's process."""

    id: int
    job: str
    started_s: float
    pid: int | None
    """None for the moment between the decision and the start."""
    process_started_s: float | None
    """As the system tells it: pids are used again."""
    ended_s: float | None
    kind: ExitKind | None
    sentence: str
    batches: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingOrder:
    """An order that waits."""

    id: int
    job: str
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorRecord:
    """The supervisor of this storage, or the last one."""

    pid: int
    process_started_s: float
    environment: str | None
    started_s: float
    ended_s: float | None
    """None while it runs, and after a death without a word."""


def _make_private(path: Path) -> None:
    """Nobody else's to read. Never opened here if it is there: closing it would drop the locks that
    other connections of this process have on it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        with suppress(PermissionError):
            path.chmod(0o600)


class Store:
    """The database of one project. Not for use by several threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        with self._told():
            _make_private(path)
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._prepare()

    @classmethod
    def of(cls, storage: Path) -> Self:
        """The store of a project's storage."""
        return cls(supervisor_directory(storage) / "kfetch.db")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as cause:
            raise SupervisorError(f"{self._path} cannot be used: {cause}") from cause

    @contextmanager
    def _together(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing."""
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _prepare(self) -> None:
        if self._db.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
            return  # and no writer is waited for
        with self._together() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
            elif version != _VERSION:
                raise SupervisorError(
                    f"{self._path} is of version {version}, and this kfetch knows {_VERSION}: "
                    "update kfetch, or name another storage"
                )

    def states(self) -> dict[str, JobState]:
        """Every job that a supervisor has seen."""
        with self._told():
            rows = self._db.execute("SELECT name, state FROM jobs ORDER BY name").fetchall()
        return {row["name"]: _state(row["state"]) for row in rows}

    def save(self, states: Mapping[str, JobState]) -> None:
        """Remember jobs' states."""
        with self._together() as db:
            _put(db, states)

    def begin(self, job: str, state: JobState, now: float) -> int:
        """Note a run before its process is started, with the job's state; its id."""
        with self._together() as db:
            _put(db, {job: state})
            added = db.execute("INSERT INTO runs (job, started_s) VALUES (?, ?)", (job, now))
            db.execute(
                "DELETE FROM runs WHERE job = ? AND id <= "
                "(SELECT id FROM runs WHERE job = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (job, job, RUNS_MAX),
            )
            assert added.lastrowid is not None
            return added.lastrowid

    def started(self, run: int, pid: int, process_started_s: float) -> None:
        """Note a run's process."""
        with self._together() as db:
            db.execute(
                "UPDATE runs SET pid = ?, process_started_s = ? WHERE id = ?",
                (pid, process_started_s, run),
            )

    def end(
        self,
        run: int,
        now: float,
        kind: ExitKind,
        sentence: str = "",
        *,
        batches: int = 0,
        rows: int = 0,
        states: Mapping[str, JobState] | None = None,
    ) -> None:
        """Note how a run ended, together with what that made of its job."""
        with self._together() as db:
            _put(db, states or {})
            db.execute(
                "UPDATE runs SET ended_s = ?, kind = ?, sentence = ?, batches = ?, rows = ? "
                "WHERE id = ?",
                (now, kind, sentence, batches, rows, run),
            )

    def open_runs(self) -> list[Run]:
        """Runs without an end."""
        return self._runs("WHERE ended_s IS NULL ORDER BY id")

    def runs_after(self, run: int) -> list[Run]:
        """Runs that were begun after one, the oldest first."""
        return self._runs("WHERE id > ? ORDER BY id", run)

    def history(self, job: str | None = None, limit: int = 20) -> list[Run]:
        """The last runs, the newest first."""
        if job is None:
            return self._runs("ORDER BY id DESC LIMIT ?", limit)
        return self._runs("WHERE job = ? ORDER BY id DESC LIMIT ?", job, limit)

    def _runs(self, rest: str, *values: object) -> list[Run]:
        with self._told():
            rows = self._db.execute(f"SELECT * FROM runs {rest}", values).fetchall()  # noqa: S608
        return [_run(row) for row in rows]

    def add_order(self, job: str, order: Order, now: float) -> int:
        """Leave an order for the supervisor; its id."""
        with self._together() as db:
            waiting = db.execute("SELECT count(*) FROM orders WHERE answer IS NULL").fetchone()[0]
            if waiting >= _ORDERS_MAX:
                raise SupervisorError(f"{waiting} orders wait for a supervisor: start kfetch up")
            added = db.execute(
                "INSERT INTO orders (job, asked, at_s) VALUES (?, ?, ?)", (job, order, now)
            )
            assert added.lastrowid is not None
            return added.lastrowid

    def waiting_orders(self) -> list[WaitingOrder]:
        """Orders that wait, the oldest first."""
        with self._told():
            rows = self._db.execute(
                "SELECT id, job, asked FROM orders WHERE answer IS NULL ORDER BY id"
            ).fetchall()
        return [
            WaitingOrder(id=row["id"], job=row["job"], order=Order(row["asked"])) for row in rows
        ]

    def record_reply(self, order: int, text: str) -> None:
        """An order has been taken; what became of it. Of old answers some are kept."""
        with self._together() as db:
            db.execute("UPDATE orders SET answer = ? WHERE id = ?", (text, order))
            db.execute(
                "DELETE FROM orders WHERE answer IS NOT NULL AND id < ?", (order - _ORDERS_MAX,)
            )

    def reply_to(self, order: int) -> str | None:
        """What became of an order; None while it waits."""
        with self._told():
            row = self._db.execute("SELECT answer FROM orders WHERE id = ?", (order,)).fetchone()
        return row["answer"] if row else None

    def record_start(self, incumbent: SupervisorRecord) -> None:
        """A supervisor begins; it has the lock."""
        with self._together() as db:
            db.execute(
                "INSERT OR REPLACE INTO supervisor "
                "(one, pid, process_started_s, environment, started_s) VALUES (1, ?, ?, ?, ?)",
                (
                    incumbent.pid,
                    incumbent.process_started_s,
                    incumbent.environment,
                    incumbent.started_s,
                ),
            )

    def record_end(self, now: float) -> None:
        """A supervisor has ended everything."""
        with self._together() as db:
            db.execute("UPDATE supervisor SET ended_s = ?", (now,))

    def last_supervisor(self) -> SupervisorRecord | None:
        """The supervisor, or the last one; None before the first."""
        with self._told():
            row = self._db.execute("SELECT * FROM supervisor").fetchone()
        if row is None:
            return None
        return SupervisorRecord(**{name: row[name] for name in row.keys() if name != "one"})  # noqa: SIM118


def _put(db: sqlite3.Connection, states: Mapping[str, JobState]) -> None:
    rows = [(name, json.dumps(asdict(state))) for name, state in states.items()]
    db.executemany("INSERT OR REPLACE INTO jobs (name, state) VALUES (?, ?)", rows)


def _state(text: str) -> JobState:
    told: dict[str, Any] = json.loads(text)
    then = told.pop("then")
    return JobState(**told | {"phase": Phase(told["phase"]), "then": Phase(then) if then else None})


def _run(row: sqlite3.Row) -> Run:
    told = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a Row iterates over values
    return Run(**told | {"kind": ExitKind(told["kind"]) if told["kind"] else None})
