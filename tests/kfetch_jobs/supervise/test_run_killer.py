"""Processes that do not die: the supervisor goes on, and records no end of their runs."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from dataclasses import asdict

import psutil
import pytest

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.progress.exit_report import ExitKind, interruption
from kfetch_jobs.progress.reports import exit_report_path, write_exit_report
from kfetch_jobs.supervise import control, processes, run_killer, supervisor
from kfetch_jobs.supervise.job_state import Order, Phase
from kfetch_jobs.supervise.supervisor import Supervisor
from tests.kfetch.agent.helpers import wait_until
from tests.kfetch_jobs.stage import CONTINUOUS, COPY_REPORT, ONCE, PATIENCE_S, UNTIL_TERM, Stage

IGNORES_TERM = 'trap : TERM; : > "$REPORTS/$NAME.on"\nwhile :; do sleep 0.1; done'
WITH_CHILD = "sh -c 'trap : TERM; while :; do sleep 0.1; done' &\n" + UNTIL_TERM
ROUND_S = 5.0
"""Far less than the ten seconds that a kill may take elsewhere, and far more than a round takes."""


def shortest_round_s(stage: Stage, supervisor: Supervisor) -> float:
    """Returns the shortest of three rounds, in seconds: the machine may halt during one of them."""
    took_s = []
    for _ in range(3):
        began = time.monotonic()
        supervisor.tick(stage.now)
        took_s.append(time.monotonic() - began)
    return min(took_s)


def make_immortal(patch: pytest.MonkeyPatch) -> None:
    """No SIGKILL arrives: as for a process that waits for a disk which does not answer."""
    patch.setattr(psutil.Process, "kill", lambda self: None)


def test_a_process_that_does_not_die_stalls_no_round(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A round of the loop does not wait for it. The log says once that the job is killed."""
    stage.job("ignores", CONTINUOUS, IGNORES_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "ignores")
        stage.ask("ignores", Order.STOP)
        supervisor.tick(stage.now)
        stage.ahead_s = 1000
        with monkeypatch.context() as patch:
            make_immortal(patch)

            assert shortest_round_s(stage, supervisor) < ROUND_S
            assert (None, Phase.STOPPING) == (
                stage.runs("ignores")[0].kind,
                stage.phase("ignores"),
            )
        stage.until_phase(supervisor, "ignores", Phase.STOPPED)
    assert 1 == caplog.text.count("did not end in time, and is killed")


def test_a_run_ends_when_all_its_processes_are_gone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its leader is gone, and a child is not: the next run must not start beside it."""
    monkeypatch.setattr(run_killer, "GONE_WITHIN_S", 0.0)
    stage.job("a", CONTINUOUS, WITH_CHILD)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        with monkeypatch.context() as patch:
            make_immortal(patch)
            leader = stage.runs("a")[0].pid or 0
            os.kill(leader, signal.SIGKILL)
            stage.until(supervisor, lambda: "some of its processes do not die" in caplog.text)

            assert shortest_round_s(stage, supervisor) < ROUND_S
            assert None is stage.runs("a")[0].kind
        stage.until_phase(supervisor, "a", Phase.BACKOFF)
        assert [] == stage.processes()


def test_an_unwanted_run_ends_when_it_is_gone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job was disabled without a supervisor. Its run is open while its processes live; the loop
    tries again."""
    monkeypatch.setattr(supervisor, "GONE_WITHIN_S", 0.0)
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as first:
        stage.until_runs(first, "a")
    stage.job("a", CONTINUOUS + "enabled: false\n", UNTIL_TERM)
    with monkeypatch.context() as patch:
        make_immortal(patch)
        with stage.supervisor() as second:
            second.tick(stage.now)
            assert None is stage.runs("a")[0].kind
            patch.undo()
            stage.until(second, lambda: stage.runs("a")[0].kind is ExitKind.KILLED)
    assert [] == stage.processes()


def test_an_unwanted_run_keeps_its_own_end(stage: Stage) -> None:
    """A run ended by itself without a supervisor, and its job was disabled. The history has how it
    ended, as its exit report tells, and the report is gone."""
    stage.job("a", ONCE, f': > "$REPORTS/$NAME.on"\nsleep 0.5\n{COPY_REPORT.format(kind="failed")}')
    with stage.supervisor() as first:
        stage.until_runs(first, "a")
        report = exit_report_path(stage.storage / "a", stage.runs("a")[0].id)
    assert wait_until(lambda: report.exists() and not stage.processes())
    stage.job("a", ONCE + "enabled: false\n", UNTIL_TERM)
    with stage.supervisor() as second:
        stage.until(second, lambda: stage.runs("a")[0].kind)

    ended = stage.runs("a")[0]
    assert (ExitKind.FAILED, "it was failed") == (ended.kind, ended.sentence)
    assert not report.exists()


def test_a_run_that_lost_its_lease_keeps_its_end(stage: Stage) -> None:
    """``kfetch down`` does not claim it."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    stage.job("b", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as first:
        stage.until_runs(first, "a", "b")
        [run] = stage.runs("a")
    report = exit_report_path(stage.storage / "a", run.id)
    write_exit_report(report, interruption("its lease is lost"))
    run_killer.report_interruption(stage.storage, run.id, "a", "by kfetch down")
    with stage.store() as store:
        run_killer.record_own_end(store, stage.storage, run, stage.now, "by kfetch down")
    assert "its lease is lost" == stage.runs("a")[0].sentence


def test_reports_of_older_runs_go(stage: Stage) -> None:
    """Another host may have recorded the ends of these runs."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    old = exit_report_path(stage.storage / "a", 12345)
    old.parent.mkdir(parents=True, exist_ok=True)
    write_exit_report(old, interruption("its lease is lost"))
    with stage.supervisor() as first:
        stage.until_runs(first, "a")
    assert not old.exists()


def test_a_job_that_loses_its_lease_is_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Its run goes on at once, so only the log warns of it."""
    (stage.directory / "lost.json").write_text(
        json.dumps(asdict(interruption("its lease is lost")))
    )
    stage.job("a", CONTINUOUS, COPY_REPORT.format(kind="lost"))
    with stage.supervisor() as first:
        stage.until(first, lambda: any(run.kind for run in stage.runs("a")))
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert [one for one in warned if one.startswith("job a: interrupted: its lease is lost")]


def test_down_tells_what_does_not_die(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """``kfetch down`` without a supervisor names the job and records no end, until it is gone."""
    monkeypatch.setattr(processes, "GONE_WITHIN_S", 0.0)
    stage.job("ignores", CONTINUOUS, IGNORES_TERM)
    with stage.supervisor() as first:
        stage.until_runs(first, "ignores")
    with stage.store() as store:
        stage.change("UPDATE supervisor SET process_started_s = 0")
        with monkeypatch.context() as patch:
            make_immortal(patch)
            with pytest.raises(
                SupervisorError, match="some processes do not die, of ignores: does"
            ):
                control.shut_down(stage.project, store, timeout_s=0.1, now=True)
            assert None is stage.runs("ignores")[0].kind
        monkeypatch.setattr(processes, "GONE_WITHIN_S", PATIENCE_S)
        control.shut_down(stage.project, store, timeout_s=0.1, now=True)
    assert ExitKind.KILLED is stage.runs("ignores")[0].kind
