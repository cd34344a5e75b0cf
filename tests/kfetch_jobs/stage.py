"""A project whose jobs are small shell scripts, and its supervisors."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil

from kfetch_jobs import config
from kfetch_jobs.config import Project
from kfetch_jobs.progress.batch import Batch
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.progress_file import append_entry
from kfetch_jobs.supervise.job_state import Order, Phase
from kfetch_jobs.supervise.processes import MARK
from kfetch_jobs.supervise.store import Run, Store, supervisor_directory
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.supervise.supervisor_lock import hold_supervisor_lock
from tests.kfetch_jobs.projects import ENVIRON, JOB

CONTINUOUS = JOB
ONCE = JOB.replace("\n  processingTime: 2s", " availableNow")

# $1 is the file for the exit report of a run. The directory REPORTS has one for each kind of exit.
UNTIL_TERM = """\
trap 'cp "$REPORTS/stopped.json" "$1"; exit' TERM
: > "$REPORTS/$NAME.on"
while :; do sleep 0.1 & wait $!; done"""
COPY_REPORT = 'cp "$REPORTS/{kind}.json" "$1"'

PATIENCE_S = 60.0


def change_database(storage: Path, statement: str, *values: object) -> None:
    """Change the supervisor's database as another process would."""
    with closing(sqlite3.connect(supervisor_directory(storage) / "kfetch.db")) as db, db:
        db.execute(statement, values)


@contextmanager
def locked_database(path: Path) -> Iterator[None]:
    """Write to a database for the block, as another process would. Nothing is changed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


class Stage:
    """A project whose jobs are scripts, and reads what its supervisors have stored."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ahead_s = 0.0
        self._left: list[subprocess.Popen[bytes]] = []
        for kind in ExitKind:
            report = {"kind": kind, "sentence": f"it was {kind}"}
            (directory / f"{kind}.json").write_text(json.dumps(report))

    @property
    def storage(self) -> Path:
        """The project's storage, which is the same if the project file is invalid."""
        return (self.directory / "data").resolve()

    @property
    def now(self) -> float:
        return time.time() + self.ahead_s

    def job(self, name: str, text: str, script: str) -> None:
        """Write a job's file and its script. Each job has a table of its own."""
        text = text.replace("${storage}/clicks/table", f"${{storage}}/{name}/table")
        (self.directory / "conf" / "jobs" / f"{name}.yml").write_text(text)
        (self.directory / f"{name}.sh").write_text(
            f"NAME={name}\nREPORTS={self.directory}\n{script}\n"
        )

    @property
    def project(self) -> Project:
        return config.load(self.directory / "conf" / "kfetch.yml", ENVIRON)

    def commit(self, job: str, *, batches: int, rows: int) -> None:
        """Record progress, as a run does after its last micro-batch."""
        batch = Batch(
            batch=batches - 1, started="", finished=time.time(), rows=1, seconds=1.0, end=1,
            latest=1, run_batches=batches, run_rows=rows,
        )  # fmt: skip
        append_entry(self.storage / job, batch)
        offsets = self.storage / job / "checkpoint" / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / "0").write_text('v1\n{}\n{"clicks": {"0": 1}}')

    def command(self, job: str, report: Path) -> Sequence[str]:
        return ["/bin/sh", str(self.directory / f"{job}.sh"), str(report)]

    @contextmanager
    def supervisor(self) -> Iterator[Supervisor]:
        """Starts a supervisor. It ends with the block as by SIGKILL, unless it has ended itself."""
        project = self.project
        with (
            hold_supervisor_lock(project.storage),
            Supervisor.start(project, self.command) as supervisor,
        ):
            try:
                yield supervisor
            finally:
                processes = (supervised.process for supervised in supervisor._jobs.values())
                self._left += [process.child for process in processes if process and process.child]

    def clear(self) -> None:
        for child in self._left:
            child.kill()  # ``processes`` does not find it if it has just started
            child.wait()
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):  # it may end by itself meanwhile
                process.kill()

    def store(self) -> Store:
        return Store.of(self.storage)

    def change(self, statement: str, *values: object) -> None:
        change_database(self.storage, statement, *values)

    def runs(self, job: str) -> list[Run]:
        with self.store() as store:
            return store.history(job)[::-1]

    def phase(self, job: str) -> Phase:
        with self.store() as store:
            return store.states()[job].phase

    def ask(self, job: str, order: Order) -> None:
        with self.store() as store:
            store.add_order(job, order, self.now)

    def until(self, supervisor: Supervisor, condition: Callable[[], object]) -> None:
        """Calls ``supervisor.tick`` until a condition is true."""
        deadline = time.monotonic() + PATIENCE_S
        supervisor.tick(self.now)
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)
            supervisor.tick(self.now)

    def until_phase(self, supervisor: Supervisor, job: str, phase: Phase) -> None:
        self.until(supervisor, lambda: self.phase(job) is phase)

    def until_runs(self, supervisor: Supervisor, *jobs: str) -> None:
        """Ticks, until the jobs' scripts handle SIGTERM."""
        for job in jobs:
            self.until(supervisor, (self.directory / f"{job}.on").exists)

    def processes(self) -> list[psutil.Process]:
        """Returns the living processes of all runs of this project."""
        mark = f"{self.storage}#"
        living = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get(MARK, "").startswith(mark)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    living.append(process)
            except (psutil.Error, OSError):
                continue
        return living
