"""The supervisor's database, in SQLite: states of jobs, their runs, and orders.

The supervisor writes states and runs. Commands write orders and read the rest, with or without a
supervisor. Times are seconds since 1970. The file is in the project's storage.

If the project has a shared state, the leader's database writes that, too, in each transaction. So
either both have a change, or none has. The databases of other hosts are copies.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

import psutil

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise.database import database_errors, open_database, transaction
from kfetch_jobs.supervise.job_state import JobState, Order, Phase
from kfetch_jobs.supervise.shared_state import (
    NO_STATE,
    ORDERS_MAX,
    RUNS_SHARED,
    SharedOrder,
    SharedState,
    StateVersion,
)
from kfetch_jobs.util.process import start_of

RUNS_MAX = 1000
"""The database keeps this many runs of each job."""
_ORDERS_MAX = 1000
"""Limit of orders that wait for a supervisor. More of them come from a script gone wild."""
TURNS_MAX = 4
"""How often kfetch repeats a write after a 429."""

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


def supervisor_directory(storage: Path) -> Path:
    """Returns the directory of a supervisor's files."""
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
    """The start time by the wall clock."""
    ended_s: float | None
    kind: ExitKind | None
    sentence: str
    batches: int
    rows: int
    process_start: str = ""
    """The start by boot and clock ticks: the system reuses pids. Empty in old records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingOrder:
    """An order without a reply."""

    id: int
    job: str
    order: str
    """An ``Order``, or one of a later kfetch."""
    ends_s: float | None
    """Nobody waits for it after this moment; None: it waits for the next supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorRecord:
    """The process that supervises a storage, or the last one that did."""

    pid: int
    process_started_s: float
    environment: str | None
    started_s: float
    ended_s: float | None
    """None while it runs, and after it was killed."""
    process_start: str = ""
    """The start by boot and clock ticks. Empty in old records."""

    @classmethod
    def of_this_process(cls, environment: str | None, now: float) -> Self:
        """Returns the record of a supervisor in this process that has not ended."""
        me = psutil.Process()
        return cls(
            pid=me.pid,
            process_started_s=me.create_time(),
            process_start=start_of(me.pid),
            environment=environment,
            started_s=now,
            ended_s=None,
        )


class WriteTooEarly(SupervisorError):
    """The store of the shared state refuses a write because another one came right before."""


class Publisher(Protocol):
    """Writes the shared state, while this process leads."""

    def await_turn(self) -> None:
        """Wait until the store takes the next state. The database is not locked meanwhile."""

    def publish(self, tables: Mapping[str, list[dict[str, Any]]]) -> StateVersion:
        """Write the rows of tables for other hosts. Returns the version of that.

        Raises SupervisorError; WriteTooEarly if the store may take it in another turn.
        """


def _shared(
    change: Callable[Concatenate[Store, sqlite3.Connection, _P], _Result],
) -> Callable[Concatenate[Store, _P], _Result]:
    """Makes a method of a change that the next leader must know.

    The change is published before it is committed. If the store refuses it for now, it is rolled
    back, and made again in another turn.
    """

    def in_turn(store: Store, /, *args: _P.args, **values: _P.kwargs) -> _Result:
        if store.publisher:
            store.publisher.await_turn()
        with store._transaction() as db:
            result = change(store, db, *args, **values)
            if store.publisher:
                rows = {name: [*map(dict, db.execute(query))] for name, query in _SHARED.items()}
                _put_version(db, store.publisher.publish(rows))
            return result

    @wraps(change)
    def changed(store: Store, /, *args: _P.args, **values: _P.kwargs) -> _Result:
        for _ in range(TURNS_MAX):
            with suppress(WriteTooEarly):
                return in_turn(store, *args, **values)
        return in_turn(store, *args, **values)

    return changed


class Store:
    """The database of one project. Not for use by several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = open_database(path)
        self.publisher: Publisher | None = None
        """Writes the shared state, while this process leads."""

    @classmethod
    def of(cls, storage: Path) -> Self:
        """Returns the store of a project's storage."""
        return cls(supervisor_directory(storage) / "kfetch.db")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the block, or roll it back if it raises."""
        with database_errors(self._path), transaction(self._db) as db:
            yield db

    def _rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        with database_errors(self._path):
            return self._db.execute(query, values).fetchall()

    def load(self, state: SharedState) -> None:
        """Replace states, runs and replies by those of a leader, if these are newer."""
        with self._transaction() as db:
            if state.replaces(_shared_version(db)):
                _put_shared_rows(db, state.tables)
                _put_version(db, state.version)

    def states(self) -> dict[str, JobState]:
        """Returns the states of all jobs that a supervisor has seen, by name."""
        rows = self._rows("SELECT name, state FROM jobs ORDER BY name")
        return {row["name"]: _state(row["state"]) for row in rows}

    @_shared
    def save(self, db: sqlite3.Connection, states: Mapping[str, JobState]) -> None:
        """Write the states of jobs."""
        _put(db, states)

    @_shared
    def begin(
        self, db: sqlite3.Connection, states: Mapping[str, JobState], now: float
    ) -> dict[str, int]:
        """Record a run of each job, and its state, before the processes start.

        Returns the ids of the runs by job.
        """
        _put(db, states)
        return {job: _add_run(db, job, now) for job in states}

    def started(self, run: int, pid: int, process_started_s: float, process_start: str) -> None:
        """Record the process of a run."""
        with self._transaction() as db:
            db.execute(
                "UPDATE runs SET pid = ?, process_started_s = ? WHERE id = ?",
                (pid, process_started_s, run),
            )
            _put_start(db, pid, process_started_s, process_start)

    @_shared
    def end(
        self,
        db: sqlite3.Connection,
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
        _put(db, states or {})
        db.execute(
            "UPDATE runs SET ended_s = ?, kind = ?, sentence = ?, batches = ?, rows = ? "
            "WHERE id = ?",
            (now, kind, sentence, batches, rows, run),
        )
        db.execute(
            "DELETE FROM process_starts WHERE (pid, process_started_s) IN "
            "(SELECT pid, process_started_s FROM runs WHERE id = ?)",
            (run,),
        )

    @_shared
    def end_open_runs(self, db: sqlite3.Connection, now: float, sentence: str) -> None:
        """Record that the runs of another host have ended, and nobody knows how."""
        db.execute(
            "UPDATE runs SET ended_s = ?, kind = ?, sentence = ? WHERE ended_s IS NULL",
            (now, ExitKind.KILLED, sentence),
        )

    @_shared
    def clock_stepped(self, db: sqlite3.Connection, step_s: float) -> None:
        """Move the starts of what runs: somebody has set the clock by ``step_s``."""
        db.execute("UPDATE runs SET started_s = started_s + ? WHERE ended_s IS NULL", (step_s,))
        db.execute("UPDATE supervisor SET started_s = started_s + ?", (step_s,))

    def open_runs(self) -> list[Run]:
        """Returns the runs without an end."""
        return self._runs("WHERE ended_s IS NULL ORDER BY id")

    def runs_after(self, run: int) -> list[Run]:
        """Returns the runs that began after the run of this id, the oldest first."""
        return self._runs("WHERE id > ? ORDER BY id", run)

    def history(self, job: str | None = None, limit: int = 20) -> list[Run]:
        """Returns the last runs of a job, or of all jobs, the newest first."""
        if job is None:
            return self._runs("ORDER BY id DESC LIMIT ?", limit)
        return self._runs("WHERE job = ? ORDER BY id DESC LIMIT ?", job, limit)

    def _runs(self, rest: str, *values: object) -> list[Run]:
        query = f"SELECT * FROM runs {_WITH_START} {rest}"  # noqa: S608 - no values in it
        return [_run(row) for row in self._rows(query, *values)]

    def add_order(self, job: str, order: Order, now: float, ends_s: float | None = None) -> int:
        """Add an order for the supervisor, and return its id. It is void after ``ends_s``."""
        with self._transaction() as db:
            waiting = db.execute("SELECT count(*) FROM orders WHERE answer IS NULL").fetchone()[0]
            if waiting >= _ORDERS_MAX:
                raise SupervisorError(f"{waiting} orders wait for a supervisor: start kfetch up")
            added = db.execute(
                "INSERT INTO orders (job, asked, at_s, ends_s) VALUES (?, ?, ?, ?)",
                (job, order, now, ends_s),
            )
            assert added.lastrowid is not None
            return added.lastrowid

    def add_shared_orders(self, orders: Iterable[SharedOrder], now: float) -> None:
        """Add orders of other hosts, unless this database has them."""
        with self._transaction() as db:
            for one in orders:
                db.execute(
                    "INSERT INTO orders (job, asked, at_s, ends_s, shared_id) "
                    "SELECT ?, ?, ?, ?, ? "
                    "WHERE NOT EXISTS (SELECT 1 FROM orders WHERE shared_id = ?)",
                    (one.job, one.order, now, one.ends_s, one.id, one.id),
                )

    def shared_replies(self) -> dict[str, str]:
        """Returns the replies to the last orders of other hosts, by the ids of these."""
        return {row["shared_id"]: row["answer"] for row in self._rows(_REPLIES)}

    def waiting_orders(self) -> list[WaitingOrder]:
        """Returns the orders without a reply, the oldest first."""
        rows = self._rows(
            "SELECT id, job, asked, ends_s FROM orders WHERE answer IS NULL ORDER BY id"
        )
        return [
            WaitingOrder(id=id_, job=job, order=order, ends_s=ends_s)
            for id_, job, order, ends_s in rows
        ]

    @_shared
    def record_reply(
        self,
        db: sqlite3.Connection,
        order: int,
        text: str,
        states: Mapping[str, JobState] | None = None,
    ) -> bool:
        """Record the reply to an order, with the new states of jobs.

        Returns False, and records nothing, if the order has a reply: its command has withdrawn it.
        The database keeps a limited number of old replies.
        """
        if not _reply(db, order, text):
            return False
        _put(db, states or {})
        db.execute("DELETE FROM orders WHERE answer IS NOT NULL AND id < ?", (order - _ORDERS_MAX,))
        return True

    def withdraw(self, orders: Iterable[int], text: str) -> None:
        """Give orders without a reply this one, so that no supervisor carries them out."""
        with self._transaction() as db:
            for order in orders:
                _reply(db, order, text)

    def reply_to(self, order: int) -> str | None:
        """Returns the reply to an order; None while it waits."""
        rows = self._rows("SELECT answer FROM orders WHERE id = ?", order)
        return rows[0]["answer"] if rows else None

    @_shared
    def record_start(
        self,
        db: sqlite3.Connection,
        supervisor: SupervisorRecord,
        states: Mapping[str, JobState] | None = None,
        forgotten: Collection[str] = (),
    ) -> None:
        """Record the start of a supervisor, which holds the lock, with the states of its jobs.

        ``forgotten``: jobs that nobody supervises. Their states go, and their runs stay.
        """
        db.executemany("DELETE FROM jobs WHERE name = ?", [(name,) for name in forgotten])
        _put(db, states or {})
        db.execute(
            "DELETE FROM process_starts WHERE (pid, process_started_s) IN "
            "(SELECT pid, process_started_s FROM supervisor)"
        )
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
        _put_start(db, supervisor.pid, supervisor.process_started_s, supervisor.process_start)

    @_shared
    def record_end(self, db: sqlite3.Connection, now: float) -> None:
        """Record the end of a supervisor, after the end of all jobs."""
        db.execute("UPDATE supervisor SET ended_s = ?", (now,))

    def last_supervisor(self) -> SupervisorRecord | None:
        """Returns the running supervisor, or the last one; None before the first."""
        rows = self._rows(f"SELECT * FROM supervisor {_WITH_START}")  # noqa: S608
        return SupervisorRecord(**_fields(rows[0], SupervisorRecord)) if rows else None


_LAST_RUNS = (
    "(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY job ORDER BY id DESC) AS place "  # noqa: S608
    f"FROM runs) WHERE place <= {RUNS_SHARED})"
)
_REPLIES = (
    "SELECT job, asked, at_s, shared_id, answer FROM (SELECT * FROM orders "  # noqa: S608
    f"WHERE shared_id IS NOT NULL AND answer IS NOT NULL ORDER BY id DESC LIMIT {ORDERS_MAX}) "
    "ORDER BY id"  # another host numbers them anew in this order
)
_RUN_COLUMNS = "id, job, started_s, pid, process_started_s, ended_s, kind, sentence, batches, rows"
_SHARED = {
    "jobs": "SELECT name, state FROM jobs",
    "runs": f"SELECT {_RUN_COLUMNS} FROM {_LAST_RUNS} ORDER BY id",  # noqa: S608
    "process_starts": "SELECT pid, process_started_s, start FROM process_starts "
    "JOIN runs USING (pid, process_started_s) WHERE ended_s IS NULL",
    "orders": _REPLIES,
    "supervisor": "SELECT environment, ended_s FROM supervisor",
}
"""The rows of each table that other hosts need."""
_REPLACED = {
    "jobs": "",
    "runs": "",
    "process_starts": "WHERE pid NOT IN (SELECT pid FROM supervisor)",
    "orders": "WHERE shared_id IS NOT NULL",
}
"""The rows that those of a leader replace. A host keeps what it knows about its own supervisor."""


def _put_shared_rows(
    db: sqlite3.Connection, tables: Mapping[str, Iterable[Mapping[str, Any]]]
) -> None:
    for table, rows in _REPLACED.items():
        db.execute(f"DELETE FROM {table} {rows}")  # noqa: S608 - texts of this module
        known = {row["name"] for row in db.execute(f"PRAGMA table_info({table})")}
        for row in tables[table]:
            values = {name: value for name, value in row.items() if name in known}
            marks = ", ".join("?" * len(values))
            db.execute(
                f"INSERT OR REPLACE INTO {table} ({', '.join(values)}) VALUES ({marks})",  # noqa: S608
                tuple(values.values()),
            )


def _shared_version(db: sqlite3.Connection) -> StateVersion:
    row = db.execute("SELECT history, epoch, change FROM shared_state").fetchone()
    return StateVersion(*row) if row else NO_STATE


def _put_version(db: sqlite3.Connection, version: StateVersion) -> None:
    db.execute(
        "INSERT OR REPLACE INTO shared_state (one, history, epoch, change) VALUES (1, ?, ?, ?)",
        version,
    )


_WITH_START = "LEFT JOIN process_starts USING (pid, process_started_s)"


def _put_start(db: sqlite3.Connection, pid: int, process_started_s: float, start: str) -> None:
    if start:
        db.execute(
            "INSERT OR REPLACE INTO process_starts (pid, process_started_s, start) "
            "VALUES (?, ?, ?)",
            (pid, process_started_s, start),
        )


def _add_run(db: sqlite3.Connection, job: str, now: float) -> int:
    added = db.execute("INSERT INTO runs (job, started_s) VALUES (?, ?)", (job, now))
    db.execute(
        "DELETE FROM runs WHERE job = ? AND id <= "
        "(SELECT id FROM runs WHERE job = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
        (job, job, RUNS_MAX),
    )
    assert added.lastrowid is not None
    return added.lastrowid


def _reply(db: sqlite3.Connection, order: int, text: str) -> bool:
    """Reply to an order. Returns False if it has a reply."""
    changed = db.execute(
        "UPDATE orders SET answer = ? WHERE id = ? AND answer IS NULL", (text, order)
    )
    return changed.rowcount > 0


def _put(db: sqlite3.Connection, states: Mapping[str, JobState]) -> None:
    rows = [(name, _text(state)) for name, state in states.items()]
    db.executemany("INSERT OR REPLACE INTO jobs (name, state) VALUES (?, ?)", rows)


def _text(state: JobState) -> str:
    values = asdict(state)
    for name in ("silent_kills", "ready_s", "refusal"):  # unknown to the previous release
        if not values[name]:
            del values[name]
    return json.dumps(values)


def _state(text: str) -> JobState:
    values: dict[str, Any] = json.loads(text)
    then = values.pop("then")
    phases = {"phase": Phase(values["phase"]), "then": Phase(then) if then else None}
    known = {field.name: values[field.name] for field in fields(JobState) if field.name in values}
    return JobState(**known | phases)


def _fields(row: sqlite3.Row, record: type[Run | SupervisorRecord]) -> dict[str, Any]:
    """The columns that the record has. A later kfetch may add more."""
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a Row iterates over values
    values["process_start"] = values.get("start") or ""
    return {field.name: values[field.name] for field in fields(record)}


def _run(row: sqlite3.Row) -> Run:
    values = _fields(row, Run)
    return Run(**values | {"kind": ExitKind(values["kind"]) if values["kind"] else None})
