"""What hangs is not healthy: a driver before its query starts, and the supervisor's loop."""

from __future__ import annotations

import json
import os
import re
import time

import pytest

from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.reports import Pulse, write_pulse
from kfetch_jobs.supervise.heartbeat import heartbeat_age_s, write_heartbeat
from kfetch_jobs.supervise.job_state import Phase
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import supervisor_directory
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import ENVIRON
from tests.kfetch_jobs.stage import CONTINUOUS, COPY_REPORT, UNTIL_TERM, Stage


def test_a_query_that_does_not_start(stage: Stage) -> None:
    """A run whose query has not started after ``health.startWithin`` is unhealthy. One whose query
    has started may wait for records as long as it likes."""
    stage.job("a", CONTINUOUS + "health: {startWithin: 60 s}\n", UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        stage.until_runs(supervisor, "a")
        began = stage.runs("a")[0].started_s
        for ahead_s in (60, 61):
            write_heartbeat(stage.storage, began + ahead_s)
            found = read_status(stage.project, store, began + ahead_s)
            assert (ahead_s == 60) is found.healthy
        pulse = Pulse(at=began + 1, batch=None)
        write_pulse(stage.storage / "a", pulse)

        assert ("its query has not started for 61 s, more than 60",) == found.jobs[0].unhealthy
        assert read_status(stage.project, store, began + 61).healthy


def test_a_wait_is_no_silence(stage: Stage) -> None:
    """A job that waited for longer than ``noProgress`` is not killed when its next run starts."""
    stage.job("a", CONTINUOUS + "health: {noProgress: 60 s}\n", "kill -9 $$")
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "a", Phase.BACKOFF)
        supervisor.tick(stage.now)
        stage.job("a", CONTINUOUS + "health: {noProgress: 60 s}\n", UNTIL_TERM)
        stage.ahead_s += 400
        stage.until_runs(supervisor, "a")
        for _ in range(3):
            supervisor.tick(stage.now)
        assert Phase.RUNNING is stage.phase("a")


def test_a_pulse_that_a_hung_round_reads(stage: Stage) -> None:
    """A round hung for longer than ``noProgress``. What it reads then is as new as it is."""
    stage.job("a", CONTINUOUS + "health: {noProgress: 60 s}\n", UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        write_pulse(stage.storage / "a", Pulse(at=stage.now, batch=None))
        supervisor.tick(stage.now - 100)
        supervisor.tick(stage.now)

        assert Phase.RUNNING is stage.phase("a")


def test_a_failure_that_a_hung_round_finds(stage: Stage) -> None:
    """The back-off begins when the round goes on."""
    stage.job("a", CONTINUOUS, "kill -9 $$")
    with stage.supervisor() as supervisor, stage.store() as store:
        supervisor.tick(stage.now)
        stage.ahead_s = -100
        stage.until_phase(supervisor, "a", Phase.BACKOFF)

        assert (store.states()["a"].due_s or 0.0) > time.time()


def test_what_is_left_of_a_run_is_not_silent(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last processes take longer than ``noProgress`` to die. Its own report counts."""
    stage.job("a", CONTINUOUS + "health: {noProgress: 60 s}\n", COPY_REPORT.format(kind="failed"))
    with stage.supervisor() as supervisor:
        with monkeypatch.context() as patched:
            patched.setattr(supervisor._killer, "kill", lambda *_: False)
            supervisor.tick(stage.now)
            process = supervisor._jobs["a"].process
            assert process is not None
            stage.until(supervisor, lambda: not process.alive)
            for _ in range(2):
                stage.ahead_s += 100
                supervisor.tick(stage.now)
        stage.until_phase(supervisor, "a", Phase.BACKOFF)

        assert [(ExitKind.FAILED, "it was failed")] == [
            (run.kind, run.sentence) for run in stage.runs("a")
        ]


def test_a_loop_that_does_not_go_on(
    stage: Stage, kfetch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor lives, and its loop hangs: ``kfetch status`` says so, and exits with 3."""
    monkeypatch.setenv("SERVERS", ENVIRON["SERVERS"])
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    command = ("status", "--project", str(stage.project.path))
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        assert 0 == kfetch(*command)[0]
        long_ago = time.time() - 90
        stage.change("UPDATE supervisor SET started_s = ?", long_ago)
        write_heartbeat(stage.storage, long_ago)
        code, out, _ = kfetch(*command)

        assert 3 == code
        assert re.search(r"has done nothing for [12] min \d+ s: it takes no orders", out)
        assert 90 <= json.loads(kfetch(*command, "--json")[1])["loop_age_s"] < 180
        supervisor.tick(time.time())
        assert 0 == kfetch(*command)[0]


def test_rounds_of_another_supervisor_do_not_count(stage: Stage) -> None:
    """A supervisor of the previous release notes no round. Nobody knows whether its loop hangs."""
    supervisor_directory(stage.storage).mkdir(parents=True)
    assert None is heartbeat_age_s(stage.storage, 9.0, 1.0)
    write_heartbeat(stage.storage, 5.0)

    assert (4.0, 0.0, None) == tuple(
        heartbeat_age_s(stage.storage, now, started)
        for now, started in ((9.0, 5.0), (3.0, 1.0), (9.0, 6.0))
    )
    assert 0o600 == os.stat(supervisor_directory(stage.storage) / "heartbeat").st_mode & 0o777
