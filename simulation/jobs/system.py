"""Stand-ins for the system's modules, and their place in the product's modules.

The product imports modules whole, so a simulation replaces the names ``time``, ``os``, ``psutil`` …
in the product's modules while it runs. Files and SQLite are real, on a file system in memory. Each
call is a step: before it the machine may kill, freeze or delay the process.
"""

from __future__ import annotations

import errno
import fcntl as real_fcntl
import io as real_io
import logging
import os as real_os
import sqlite3 as real_sqlite3
import subprocess as real_subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil as real_psutil

from kfetch.storage.processes import ProcessStat
from kfetch_jobs.offsets import execution, undo
from kfetch_jobs.run import start_checks
from kfetch_jobs.supervise import control, supervisor, wall_clock
from simulation.jobs.machine import SIGKILL, Machine, Process
from simulation.kernel.stand_ins import random_module, time_module
from simulation.kernel.substitution import modules_of, patched, substituted

_BUSY_RETRY_S = 0.05
HOST = "HOST"
"""The variable of a process's environment that names its host. Without it there is one host."""

Change = tuple[str, Any, int]
"""A statement, its values, and the id of the row that it has added."""
Observer = Callable[[Process | None, Sequence[Change]], None]
"""Gets the changes of each committed transaction."""
Launch = Callable[[Process, Sequence[str], dict[str, str]], Process]
"""Starts a process for its parent, command and environment. Raises OSError."""


class StandIn:
    """A module with some names replaced."""

    def __init__(self, machine: Machine, real: ModuleType) -> None:
        self._machine = machine
        self._real = real

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        setattr(self, name, value)
        return value

    def replace_names(self, **values: object) -> None:
        """Give names of the module other values."""
        vars(self).update(values)


def _time(machine: Machine, stretch: Callable[[float], float]) -> SimpleNamespace:
    """Returns the module ``time`` in virtual time. Sleeps may be longer."""
    time = time_module(machine.kernel)

    def sleep(seconds: float) -> None:
        machine.calls += 1
        machine.sleep(stretch(seconds))

    time.sleep = sleep
    return time


def _no_space(path: object) -> OSError:
    return OSError(errno.ENOSPC, real_os.strerror(errno.ENOSPC), str(path))


class File:
    """A file that a process writes."""

    def __init__(self, machine: Machine, real: Any, path: object) -> None:
        self._machine, self._file, self._path = machine, real, path

    def write(self, text: Any) -> int:
        """Write, in two parts while the process may die."""
        machine = self._machine
        if machine.disk_full:
            raise _no_space(self._path)
        process = machine.current
        if process is None or process.fault_in < 0:
            return int(self._file.write(text))
        half = len(text) // 2
        for part in (text[:half], text[half:]):
            self._file.write(part)
            self._file.flush()
            machine.point()
        return len(text)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Its time is that of the simulated machine."""
        if not self._file.closed:
            with_time = self._file.writable() and not self._machine.over
            self._file.flush()
            if with_time:
                wall = self._machine.wall
                real_os.utime(self._file.fileno(), (wall, wall))
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Files:
    """``open`` and ``os``, with a disk that may be full."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.os = self._stand_in_for_os()
        self.io = StandIn(machine, real_io)
        self.io.replace_names(open=self.open)

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Open a file."""
        machine = self._machine
        machine.point()
        if mode in ("r", "rb"):
            return open(file, mode, *args, **kwargs)
        if machine.disk_full and "a" not in mode and not real_os.path.exists(file):
            raise _no_space(file)
        return File(machine, open(file, mode, *args, **kwargs), file)

    def _stand_in_for_os(self) -> StandIn:
        stand_in = StandIn(self._machine, real_os)
        for name in (
            *("replace", "rename", "unlink", "remove", "rmdir", "scandir"),
            *("stat", "lstat", "fsync", "ftruncate", "sendfile"),
        ):
            setattr(stand_in, name, self._stepped(getattr(real_os, name)))
        for name in ("mkdir", "makedirs", "write"):
            setattr(stand_in, name, self._stepped(getattr(real_os, name), grows=True))
        stand_in.replace_names(
            open=self._os_open,
            utime=self._utime,
            listdir=self._listdir,
            fdopen=self._fdopen,
            kill=self._kill,
            getpid=self._getpid,
            getsid=self._getsid,
        )
        return stand_in

    def _stepped(self, real: Callable[..., Any], *, grows: bool = False) -> Callable[..., Any]:
        machine = self._machine

        def call(*args: Any, **kwargs: Any) -> Any:
            machine.point()
            if grows and machine.disk_full:
                raise _no_space(args[0])
            return real(*args, **kwargs)

        return call

    def _utime(self, path: Any, times: Any = None, **kwargs: Any) -> None:
        self._machine.point()
        wall = self._machine.wall
        if "ns" in kwargs:
            real_os.utime(path, **kwargs)
        else:
            real_os.utime(path, times or (wall, wall), **kwargs)

    def _listdir(self, path: Any = ".") -> list[Any]:
        self._machine.point()
        return sorted(real_os.listdir(path))

    def _os_open(self, path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        self._machine.point()
        if self._machine.disk_full and flags & real_os.O_CREAT and not real_os.path.exists(path):
            raise _no_space(path)
        return real_os.open(path, flags, *args, **kwargs)

    def _fdopen(self, handle: int, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        real = real_os.fdopen(handle, mode, *args, **kwargs)
        return real if mode in ("r", "rb") else File(self._machine, real, handle)

    def _kill(self, pid: int, number: int) -> None:
        machine = self._machine
        machine.point()
        if pid not in machine.processes:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        machine.signal(machine.processes[pid], number)

    def _getpid(self) -> int:
        current = self._machine.current
        return current.pid if current else 1

    def _getsid(self, pid: int) -> int:
        process = self._machine.processes.get(pid)
        if process is None:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        return process.sid


class Locks(StandIn):
    """The module ``fcntl``: a lock ends with its file or its process, and is known on its host."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_fcntl)
        self._holders: dict[tuple[str, str], tuple[File, Process | None]] = {}
        """By host and path."""

    def flock(self, file: File, operation: int) -> None:
        """Lock a file, or raise BlockingIOError."""
        self._machine.point()
        process = self._machine.current
        key = process.environ.get(HOST, "") if process else "", str(file.name)
        while self._is_held(key):
            if operation & real_fcntl.LOCK_NB:
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
            self._machine.sleep(_BUSY_RETRY_S)
        self._holders[key] = (file, process)

    def held(self) -> list[tuple[str, str]]:
        """Returns the hosts and the paths of the locked files."""
        return [key for key in self._holders if self._is_held(key)]

    def _is_held(self, key: tuple[str, str]) -> bool:
        file, process = self._holders.get(key, (None, None))
        return file is not None and not file.closed and (process is None or process.alive)


_WRITES = ("INSERT", "UPDATE", "DELETE", "CREATE", "ALTER")


class Connection:
    """A connection to a real database. Waits for its lock take virtual time."""

    def __init__(self, machine: Machine, observer: Observer, path: Any, timeout: float) -> None:
        self._machine, self._observer, self._timeout = machine, observer, timeout
        self._db = real_sqlite3.connect(path, timeout=0, isolation_level=None)
        self._changes: list[Change] = []
        if machine.current is not None:
            machine.current.connections.append(self)

    @property
    def row_factory(self) -> Any:
        """The class of rows."""
        return self._db.row_factory

    @row_factory.setter
    def row_factory(self, factory: Any) -> None:
        self._db.row_factory = factory

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._db.in_transaction

    def execute(self, statement: str, values: Any = ()) -> Any:
        """Execute a statement, as soon as nobody else locks the database."""
        machine = self._machine
        machine.point()
        verb = statement.lstrip()[:6].upper()
        writes = verb.startswith(_WRITES)
        if machine.disk_full and (writes or verb == "COMMIT"):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")  # as SQLite does
                self._changes = []
            raise real_sqlite3.OperationalError("database or disk is full")
        result = self._patiently(lambda: self._db.execute(statement, values))
        if writes and result.rowcount:
            self._changes.append((statement, values, result.lastrowid or 0))
        elif verb == "COMMIT":
            changes, self._changes = self._changes, []
            self._observer(machine.current, changes)
        elif verb == "ROLLBA":
            self._changes = []
        return result

    def _patiently(self, action: Callable[[], Any]) -> Any:
        deadline = self._machine.now + self._timeout
        while True:
            try:
                return action()
            except real_sqlite3.OperationalError as error:
                busy = getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")
                if not busy or self._machine.now >= deadline:
                    raise
                self._machine.sleep(_BUSY_RETRY_S)

    def executemany(self, statement: str, rows: Any) -> None:
        """Execute a statement for each row."""
        for row in rows:
            self.execute(statement, row)

    def close(self) -> None:
        """Close the connection. An open transaction is rolled back."""
        self._db.close()


class Sqlite(StandIn):
    """The module ``sqlite3``."""

    def __init__(self, machine: Machine, observer: Observer) -> None:
        super().__init__(machine, real_sqlite3)
        self._observer = observer

    def connect(self, path: Any, timeout: float = 5.0, isolation_level: Any = None) -> Connection:
        """Open a database."""
        self._machine.point()
        return Connection(self._machine, self._observer, path, timeout)


class ProcessView:
    """``psutil.Process``: a process at the moment when somebody asked for it."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self._machine, self._process = machine, process
        self.pid = process.pid

    def _checked(self) -> Process:
        if self._process.gone:
            raise real_psutil.NoSuchProcess(self.pid)
        return self._process

    def create_time(self) -> float:
        """Returns the start by the wall clock, which moves with the kernel's boot time."""
        return self._checked().started + self._machine.kernel.wall_offset

    def status(self) -> str:
        """Returns the state."""
        zombie = self._checked().zombie
        return str(real_psutil.STATUS_ZOMBIE if zombie else real_psutil.STATUS_RUNNING)

    def environ(self) -> dict[str, str]:
        """Returns the environment."""
        return self._checked().environ

    def cmdline(self) -> list[str]:
        """Returns the command."""
        return list(self._checked().cmdline)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._machine.point()
        self._machine.signal(self._checked(), SIGKILL)


class Psutil(StandIn):
    """The module ``psutil``."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, real_psutil)

    def Process(self, pid: int | None = None) -> ProcessView:
        """Returns a process; without a pid, the caller's own."""
        machine = self._machine
        if pid is None:
            assert machine.current is not None
            return ProcessView(machine, machine.current)
        if pid not in machine.processes:
            raise real_psutil.NoSuchProcess(pid)
        return ProcessView(machine, machine.processes[pid])

    def process_iter(self) -> Iterator[ProcessView]:
        """Yields all processes."""
        self._machine.point()
        for process in sorted(self._machine.processes.values(), key=lambda one: one.pid):
            yield ProcessView(self._machine, process)

    def wait_procs(self, processes: Sequence[ProcessView], timeout: float) -> None:
        """Wait a moment."""
        self._machine.sleep(timeout)


class Child:
    """``subprocess.Popen``: a child of the current process."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self._machine, self._process = machine, process
        self.pid = process.pid

    def poll(self) -> int | None:
        """Returns None while the child lives; else reaps it."""
        if self._process.alive:
            return None
        if not self._process.gone:
            self._machine.reap(self._process)
        return 0


class Subprocess(StandIn):
    """The module ``subprocess``."""

    def __init__(self, machine: Machine, launch: Launch) -> None:
        super().__init__(machine, real_subprocess)
        self._launch = launch

    def Popen(self, command: Sequence[str], **options: Any) -> Child:
        """Start a child."""
        machine = self._machine
        machine.point()
        assert machine.current is not None
        return Child(machine, self._launch(machine.current, command, options["env"]))


def _stats(machine: Machine) -> Callable[[int], ProcessStat]:
    """Returns ``process_stat`` for the processes of a machine."""

    def stat(pid: int) -> ProcessStat:
        process = machine.processes.get(pid)
        return ProcessStat(started=process.ticks) if process else ProcessStat()

    return stat


_LOADED = (execution, undo, start_checks, control, supervisor)
"""What a simulation runs must be loaded before: its modules get the stand-ins."""

Values = Mapping[tuple[str, str], object]
"""What variables of modules are during a simulation, by module and variable."""


@contextmanager
def installed(
    machine: Machine,
    more: Values,
    *,
    observer: Observer,
    launch: Launch,
    stretch: Callable[[float], float] = lambda seconds: seconds,
) -> Iterator[Locks]:
    """A context in which the modules of ``kfetch_jobs`` have the stand-ins of the system.

    ``more``: other variables, by module and variable. Yields the locks of files.
    """
    files, locks = Files(machine), Locks(machine)
    stand_ins = {
        "time": _time(machine, stretch),
        "os": files.os,
        "psutil": Psutil(machine),
        "fcntl": locks,
        "sqlite3": Sqlite(machine, observer),
        "subprocess": Subprocess(machine, launch),
        "random": random_module(machine.kernel),
    }
    modules = [*modules_of("kfetch_jobs")]
    values: dict[tuple[str, str], object] = {
        **{(module.__name__, "open"): files.open for module in modules},
        ("shutil", "open"): files.open,
        ("shutil", "os"): files.os,
        ("pathlib", "os"): files.os,
        ("pathlib", "io"): files.io,
        ("tempfile", "_os"): files.os,
        ("tempfile", "_get_candidate_names"): lambda: (f"part{n}" for n in count(1)),
        ("kfetch_jobs.supervise.database", "is_shared"): lambda _: False,
        ("kfetch_jobs.supervise.database", "file_system_of"): lambda _: "tmpfs",
        ("kfetch_jobs.util.mounts", "file_system_of"): lambda _: "tmpfs",
        ("kfetch_jobs.util.process", "process_stat"): _stats(machine),
        ("kfetch_jobs.util.process", "_boot_id"): lambda: "boot",
    }
    clock, time = wall_clock.WallClock, stand_ins["time"]
    # Its arguments' defaults are functions of the real module.
    values[supervisor.__name__, "WallClock"] = lambda: clock(time.time, time.monotonic)
    with (
        substituted(modules, stand_ins),
        patched({**values, **more}),
        _logs_in_story(machine, "kfetch_jobs"),
        _logs_in_story(machine, "kfetch.storage"),
    ):
        yield locks


class _StoryHandler(logging.Handler):
    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def emit(self, record: logging.LogRecord) -> None:
        self._machine.note("log", f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def _logs_in_story(machine: Machine, name: str) -> Iterator[None]:
    """Keep log lines of the product for the story, or drop them early."""
    logger, handler = logging.getLogger(name), _StoryHandler(machine)
    level, propagate = logger.level, logger.propagate
    logger.propagate = False
    logger.setLevel(logging.INFO if machine.keep_story else logging.CRITICAL)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def room_in_memory() -> Path:
    """Returns a new directory on a file system in memory, if there is one."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() else None
    return Path(tempfile.mkdtemp(prefix="kfetch-simulation-", dir=parent))
