"""If the supervisor can't write to its disk, it forgets no job, and leaves no process behind."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.progress.exit_report import ExitKind, ExitReport
from kfetch_jobs.progress.reports import read_exit_report
from kfetch_jobs.supervise import control, processes
from kfetch_jobs.supervise import supervisor as supervisor_module
from kfetch_jobs.supervise.job_state import Order, Phase
from kfetch_jobs.supervise.processes import RunProcess
from kfetch_jobs.supervise.store import Store
from tests.kfetch_jobs.stage import CONTINUOUS, PATIENCE_S, UNTIL_TERM, Stage

IGNORES_TERM = 'trap : TERM; : > "$REPORTS/$NAME.on"\nwhile :; do sleep 0.1; done'
IGNORES_TERM_WITH_A_CHILD = (
    'trap : TERM; : > "$REPORTS/$NAME.on"\nsleep 1000 &\nwhile :; do wait; done'
)


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor waits 0.01 s before it repeats a round that failed."""
    monkeypatch.setattr(supervisor_module, "_AGAIN_S", 0.01)


def make_read_only(store: Store) -> None:
    """Make all further changes of the database fail, as on a full disk."""
    store._db.execute("PRAGMA query_only = ON")


def test_a_job_whose_directory_cannot_be_made(stage: Stage) -> None:
    """If there is a file in place of the job's directory, the run fails, and back-off follows."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        (stage.storage / "a").touch()
        stage.until_phase(supervisor, "a", Phase.BACKOFF)
        assert ExitKind.FAILED is stage.runs("a")[0].kind
        assert stage.runs("a")[0].sentence.startswith("no start: ")
        (stage.storage / "a").unlink()
        stage.ahead_s = 1000
        stage.until_runs(supervisor, "a")


def test_a_start_that_can_not_be_noted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database fails when the first of two jobs has started. The second one starts, too, and
    each has one process."""
    started = Store.started

    def failing_once(*_: object) -> None:
        monkeypatch.setattr(Store, "started", started)
        raise SupervisorError("the disk is full")

    for name in ("a", "b"):
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        monkeypatch.setattr(Store, "started", failing_once)
        assert not supervisor._tick_succeeded()
        stage.until_runs(supervisor, "a", "b")
        assert [1, 1] == [len(stage.runs(name)) for name in ("a", "b")]


def test_a_run_that_can_not_be_recorded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when a job is due, and the supervisor ends. No run has begun."""

    def full(*_: object) -> None:
        raise SupervisorError("the disk is full")

    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        monkeypatch.setattr(Store, "begin", full)
        assert not supervisor._tick_succeeded()
        supervisor.run(lambda: True, lambda: False)
    assert (Phase.WAITING, []) == (stage.phase("a"), stage.runs("a"))


@pytest.mark.parametrize("ends", [False, True])
def test_a_launch_on_a_disk_that_fills_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """The supervisor has recorded a run, can't start it, and can't record its end. It records the
    end once the disk has room, also if it ends itself meanwhile. Then the job starts again."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        with monkeypatch.context() as disk:
            disk.setattr(supervisor_module, "write_snapshot", full)
            disk.setattr(Store, "end", full)
            assert not supervisor._tick_succeeded()
            assert not supervisor._tick_succeeded()
            assert Phase.RUNNING is stage.phase("a")
        if ends:
            supervisor.run(lambda: True, lambda: False)
        else:
            stage.until_phase(supervisor, "a", Phase.BACKOFF)
        assert [(ExitKind.FAILED, "no start: [Errno 28] No space left on device")] == [
            (run.kind, run.sentence) for run in stage.runs("a")
        ]
        if not ends:
            stage.ahead_s = 400
            stage.until_runs(supervisor, "a")


def test_a_bug_that_one_launch_triggers(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run fails, and back-off follows. The other due jobs start."""

    def launch(*arguments: Any, log: Path, **options: Any) -> RunProcess:
        if "a" == log.parent.name:
            raise ValueError("embedded null byte")
        return processes.launch(*arguments, log=log, **options)

    for name in ("a", "b"):
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    monkeypatch.setattr(supervisor_module, "launch", launch)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "b")
        assert Phase.BACKOFF is stage.phase("a")
        (run,) = stage.runs("a")
        assert ExitKind.FAILED is run.kind
        assert "ValueError: this is a bug of kfetch: the log has its trace" in run.sentence


def test_files_of_one_job_that_cannot_be_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other jobs are supervised, and the log names the error."""

    def read(report: Path) -> ExitReport:
        if "a" == report.parent.name:
            raise OSError(errno.EIO, "Input/output error")
        return read_exit_report(report)

    monkeypatch.setattr(supervisor_module, "read_exit_report", read)
    for name in ("a", "b"):
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a", "b")
        for name in ("a", "b"):
            os.kill(stage.runs(name)[0].pid or 0, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while stage.phase("b") is not Phase.BACKOFF:
            assert time.monotonic() < deadline
            supervisor._tick_succeeded()

        def tick_until_it_fails() -> None:
            while time.monotonic() < deadline:
                supervisor.tick(stage.now)

        with pytest.raises(OSError, match="Input/output error"):
            tick_until_it_fails()


def test_an_end_whose_progress_cannot_be_read(stage: Stage) -> None:
    """The supervisor still records the end of the run, without its micro-batches."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        (stage.storage / "a" / "progress.jsonl").symlink_to("progress.jsonl")  # fails for root too
        stage.ask("a", Order.STOP)
        stage.until_phase(supervisor, "a", Phase.STOPPED)
    assert [(ExitKind.STOPPED, 0)] == [(run.kind, run.rows) for run in stage.runs("a")]


def test_the_end_of_a_supervisor_on_a_full_disk(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """A supervisor that can't record the end of a job still ends the others, also one that ignores
    SIGTERM. The next supervisor records these ends, and starts the jobs again."""
    for name in ("a", "b"):
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    stage.job("c", CONTINUOUS, IGNORES_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a", "b", "c")
        make_read_only(supervisor._store)
        with pytest.raises(SupervisorError, match="readonly"):
            supervisor.run(lambda: True, lambda: "trying again" in caplog.text)
        assert [] == stage.processes()
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "c", Phase.BACKOFF)
        assert ExitKind.STOPPED is stage.runs("a")[0].kind
        stage.ahead_s = 1000
        stage.until(supervisor, lambda: 2 == len(stage.runs("a")) == len(stage.runs("c")))


def test_the_end_on_a_full_disk_leaves_no_process(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job's main process dies while the supervisor fails to record the end of another job. The
    supervisor kills its child processes, and then ends with the error."""

    def end(*_: object, **__: object) -> None:
        pid = stage.runs("b")[0].pid
        leaders = [process for process in stage.processes() if process.pid == pid]
        for leader in leaders:
            leader.kill()
        deadline = time.monotonic() + PATIENCE_S
        while any(process in leaders for process in stage.processes()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise SupervisorError("the disk is full")

    stage.job("a", CONTINUOUS, UNTIL_TERM)
    stage.job("b", CONTINUOUS, IGNORES_TERM_WITH_A_CHILD)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a", "b")
        monkeypatch.setattr(Store, "end", end)
        with pytest.raises(SupervisorError, match="full"):
            supervisor.run(lambda: True, lambda: False)
        assert [] == stage.processes()


def test_down_on_a_full_disk(stage: Stage) -> None:
    """If the supervisor is dead, ``kfetch down`` kills all jobs before it records the first end."""
    for name in ("a", "b"):
        stage.job(name, CONTINUOUS, IGNORES_TERM)
    with stage.supervisor() as first:
        stage.until_runs(first, "a", "b")
    with stage.store() as store:
        stage.change("UPDATE supervisor SET process_started_s = 0")
        make_read_only(store)
        with pytest.raises(SupervisorError, match="readonly"):
            control.shut_down(stage.project, store, timeout_s=PATIENCE_S, now=True)
    assert [] == stage.processes()
