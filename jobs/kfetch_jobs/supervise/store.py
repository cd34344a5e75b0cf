"""The supervisor's database, in SQLite: states of jobs, their runs, and orders.

The supervisor writes states and runs. Commands write orders and read the rest, with or without a
supervisor. Times are seconds since 1970. The file is in the project's storage, which is local.
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
"""The database keeps this many runs of each job."""
_ORDERS_MAX = 1000
"""Limit of orders that wait for a supervisor. More of them come from a script gone wild."""
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
    """Return the directory of a supervisor's files."""
    return storage / ".supervisor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job, from its start to its end."""

    id: int
    job: str
    started_s: float
    pid: int | None
    """None between the decision and the start of the process."""
    process_started_s: float | None
    """The start time by the system: it reuses pids."""
    ended_s: float | None
    kind: ExitKind | None
    sentence: str
    batches: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingOrder:
    """An order without a reply."""

    id: int
    job: str
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorRecord:
    """The process that supervises a storage, or the last one that did."""

    pid: int
    process_started_s: float
    environment: str | None
    started_s: float
    ended_s: float | None
    """None while it runs, and after it was killed."""


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


class Store:
    """The database of one project. Not for use by several threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        with self._errors():
            _make_private(path)
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._prepare()

    @classmethod
    def of(cls, storage: Path) -> Self:
        """Return the store of a project's storage."""
        return cls(supervisor_directory(storage) / "kfetch.db")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise SupervisorError for errors of SQLite and of the file system."""
        try:
            yield
        except (sqlite3.Error, OSError) as cause:
            raise SupervisorError(f"{self._path} cannot be used: {cause}") from cause

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the block, or roll it back if it raises."""
        with self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _prepare(self) -> None:
        if self._db.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
            return  # without waiting for a writer
        with self._transaction() as db:
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
        """Return the states of all jobs that a supervisor has seen, by name."""
        with self._errors():
            rows = self._db.execute("SELECT name, state FROM jobs ORDER BY name").fetchall()
        return {row["name"]: _state(row["state"]) for row in rows}

    def save(self, states: Mapping[str, JobState]) -> None:
        """Write the states of jobs."""
        with self._transaction() as db:
            _put(db, states)

    def begin(self, job: str, state: JobState, now: float) -> int:
        """Record a run and the job's state before the process starts. Return the run's id."""
        with self._transaction() as db:
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
        """Record the process of a run."""
        with self._transaction() as db:
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
        """Record the end of a run, with the new states of jobs."""
        with self._transaction() as db:
            _put(db, states or {})
            db.execute(
                "UPDATE runs SET ended_s = ?, kind = ?, sentence = ?, batches = ?, rows = ? "
                "WHERE id = ?",
                (now, kind, sentence, batches, rows, run),
            )

    def open_runs(self) -> list[Run]:
        """Return the runs without an end."""
        return self._runs("WHERE ended_s IS NULL ORDER BY id")

    def runs_after(self, run: int) -> list[Run]:
        """Return the runs that began after the run of this id, the oldest first."""
        return self._runs("WHERE id > ? ORDER BY id", run)

    def history(self, job: str | None = None, limit: int = 20) -> list[Run]:
        """Return the last runs of a job, or of all jobs, the newest first."""
        if job is None:
            return self._runs("ORDER BY id DESC LIMIT ?", limit)
        return self._runs("WHERE job = ? ORDER BY id DESC LIMIT ?", job, limit)

    def _runs(self, rest: str, *values: object) -> list[Run]:
        with self._errors():
            rows = self._db.execute(f"SELECT * FROM runs {rest}", values).fetchall()  # noqa: S608
        return [_run(row) for row in rows]

    def add_order(self, job: str, order: Order, now: float) -> int:
        """Add an order for the supervisor, and return its id."""
        with self._transaction() as db:
            waiting = db.execute("SELECT count(*) FROM orders WHERE answer IS NULL").fetchone()[0]
            if waiting >= _ORDERS_MAX:
                raise SupervisorError(f"{waiting} orders wait for a supervisor: start kfetch up")
            added = db.execute(
                "INSERT INTO orders (job, asked, at_s) VALUES (?, ?, ?)", (job, order, now)
            )
            assert added.lastrowid is not None
            return added.lastrowid

    def waiting_orders(self) -> list[WaitingOrder]:
        """Return the orders without a reply, the oldest first."""
        with self._errors():
            rows = self._db.execute(
                "SELECT id, job, asked FROM orders WHERE answer IS NULL ORDER BY id"
            ).fetchall()
        return [
            WaitingOrder(id=row["id"], job=row["job"], order=Order(row["asked"])) for row in rows
        ]

    def record_reply(self, order: int, text: str) -> None:
        """Record the reply to an order. The database keeps a limited number of old replies."""
        with self._transaction() as db:
            db.execute("UPDATE orders SET answer = ? WHERE id = ?", (text, order))
            db.execute(
                "DELETE FROM orders WHERE answer IS NOT NULL AND id < ?", (order - _ORDERS_MAX,)
            )

    def reply_to(self, order: int) -> str | None:
        """Return the reply to an order; None while it waits."""
        with self._errors():
            row = self._db.execute("SELECT answer FROM orders WHERE id = ?", (order,)).fetchone()
        return row["answer"] if row else None

    def record_start(self, supervisor: SupervisorRecord) -> None:
        """Record the start of a supervisor, which holds the lock."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO supervisor "
                "(one, pid, process_started_s, environment, started_s) VALUES (1, ?, ?, ?, ?)",
                (
                    supervisor.pid,
                    supervisor.process_started_s,
                    supervisor.environment,
                    supervisor.started_s,
                ),
            )

    def record_end(self, now: float) -> None:
        """Record the end of a supervisor, after the end of all jobs."""
        with self._transaction() as db:
            db.execute("UPDATE supervisor SET ended_s = ?", (now,))

    def last_supervisor(self) -> SupervisorRecord | None:
        """Return the running supervisor, or the last one; None before the first."""
        with self._errors():
            row = self._db.execute("SELECT * FROM supervisor").fetchone()
        if row is None:
            return None
        return SupervisorRecord(**{name: row[name] for name in row.keys() if name != "one"})  # noqa: SIM118


def _put(db: sqlite3.Connection, states: Mapping[str, JobState]) -> None:
    rows = [(name, json.dumps(asdict(state))) for name, state in states.items()]
    db.executemany("INSERT OR REPLACE INTO jobs (name, state) VALUES (?, ?)", rows)


def _state(text: str) -> JobState:
    fields: dict[str, Any] = json.loads(text)
    then = fields.pop("then")
    phases = {"phase": Phase(fields["phase"]), "then": Phase(then) if then else None}
    return JobState(**fields | phases)


def _run(row: sqlite3.Row) -> Run:
    fields = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a Row iterates over values
    return Run(**fields | {"kind": ExitKind(fields["kind"]) if fields["kind"] else None})
