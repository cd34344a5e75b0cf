"""The supervisor with real processes: small shell scripts stand where ``kfetch run`` would."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from kfetch_jobs.config import yamlfile
from kfetch_jobs.errors import ConfigError, SupervisorError
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.reports import Pulse, write_pulse
from kfetch_jobs.supervise import control
from kfetch_jobs.supervise.job_state import Order, Phase
from kfetch_jobs.supervise.order_reply import OrderReply
from kfetch_jobs.supervise.state_machine import after_clock_step
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.store import supervisor_directory
from kfetch_jobs.supervise.supervised_job import UNREAD
from kfetch_jobs.verbs.supervising import _signals
from tests.kfetch_jobs.projects import JOB
from tests.kfetch_jobs.stage import CONTINUOUS, COPY_REPORT, ONCE, PATIENCE_S, UNTIL_TERM, Stage


def test_a_job_is_started_stopped_and_noted(stage: Stage) -> None:
    """A continuous job runs until it is stopped, and its history says how it ended."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        stage.commit("a", batches=2, rows=7)
        stage.ask("a", Order.STOP)
        stage.until_phase(supervisor, "a", Phase.STOPPED)
        supervisor.tick(stage.now + 10_000)

    assert [(ExitKind.STOPPED, 2, 7)] == [
        (run.kind, run.batches, run.rows) for run in stage.runs("a")
    ]
    assert [] == stage.processes()
    assert [] == list(stage.project.storage.glob("a/ending-*"))


@pytest.mark.parametrize(
    ("names", "line"),
    [("", "supervising 0 jobs"), ("a", "supervising 1 job: a"), ("ab", "supervising 2 jobs: a, b")],
)
def test_the_first_line_names_the_jobs(
    stage: Stage, caplog: pytest.LogCaptureFixture, names: str, line: str
) -> None:
    """Nothing follows the number of jobs if there is none."""
    caplog.set_level("INFO")
    for name in names:
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    with stage.supervisor():
        assert [line] == [text for text in caplog.messages if "supervising" in text]


def test_a_stop_that_comes_early_or_is_not_heard(stage: Stage) -> None:
    """SIGTERM ends a run that has not set its handler yet. A run that ignores it is killed."""
    stage.job("early", CONTINUOUS, "while :; do sleep 0.1; done")
    stage.job(
        "ignores", CONTINUOUS, 'trap : TERM; : > "$REPORTS/$NAME.on"\nwhile :; do sleep 0.1; done'
    )
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "ignores")
        for name in ("early", "ignores"):
            stage.ask(name, Order.STOP)
        stage.until_phase(supervisor, "early", Phase.STOPPED)
        stage.ahead_s = 1000
        stage.until_phase(supervisor, "ignores", Phase.STOPPED)

    assert [ExitKind.STOPPED, ExitKind.KILLED] == [
        stage.runs(name)[0].kind for name in ("early", "ignores")
    ]
    assert [] == stage.processes()


def test_failures_are_tried_again_and_mistakes_are_not(stage: Stage) -> None:
    """After a failure the next attempt comes when its pause is over; after a mistake none does."""
    stage.job("a", CONTINUOUS, COPY_REPORT.format(kind="failed"))
    stage.job("b", CONTINUOUS, COPY_REPORT.format(kind="config"))
    stage.job("c", CONTINUOUS, "kill -9 $$")
    with stage.supervisor() as supervisor:
        for name, phase in (("a", Phase.BACKOFF), ("b", Phase.FAILED), ("c", Phase.BACKOFF)):
            stage.until_phase(supervisor, name, phase)
        stage.ahead_s = 400
        stage.until(supervisor, lambda: len(stage.runs("a")) == len(stage.runs("c")) == 2)
        stage.until_phase(supervisor, "a", Phase.BACKOFF)

    assert [(ExitKind.FAILED, "it was failed")] * 2 == [
        (r.kind, r.sentence) for r in stage.runs("a")
    ]
    assert [ExitKind.CONFIG] == [run.kind for run in stage.runs("b")]
    assert ExitKind.KILLED is stage.runs("c")[0].kind


def test_a_killed_supervisor_loses_nothing(stage: Stage) -> None:
    """The next one adopts what runs, hears the last word of what has ended meanwhile, and finds a
    process whose start could not be noted any more."""
    stage.job(
        "ends",
        ONCE,
        'while [ ! -e "$REPORTS/go" ]; do sleep 0.01; done\n' + COPY_REPORT.format(kind="finished"),
    )
    stage.job("runs", CONTINUOUS, UNTIL_TERM)
    stage.job("unnoted", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "runs", "unnoted")
        stage.until_phase(supervisor, "ends", Phase.RUNNING)
    before = {run.job: run.pid for name in ("ends", "runs", "unnoted") for run in stage.runs(name)}
    with sqlite3.connect(supervisor_directory(stage.project.storage) / "kfetch.db") as db:
        db.execute("UPDATE runs SET pid = NULL, process_started_s = NULL WHERE job = 'unnoted'")
    db.close()
    (stage.directory / "go").touch()
    process = psutil.Process(before["ends"])
    process.wait(PATIENCE_S)
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "ends", Phase.FINISHED)

        assert {"runs": before["runs"], "unnoted": before["unnoted"]} == {
            run.job: run.pid for name in ("runs", "unnoted") for run in stage.runs(name)
        }
        assert [(ExitKind.FINISHED, "it was finished")] == [
            (run.kind, run.sentence) for run in stage.runs("ends")
        ]
        for name in ("runs", "unnoted"):
            stage.ask(name, Order.STOP)
            stage.until_phase(supervisor, name, Phase.STOPPED)
    assert [] == stage.processes()


def test_a_supervisor_killed_before_the_launches(stage: Stage) -> None:
    """It has recorded the runs of all due jobs. The next one starts them, and counts no failure,
    so a job without restarts starts, too."""
    never = CONTINUOUS + "restart: {attempts: 0}\n"
    for name in ("a", "b"):
        stage.job(name, never, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        for one in supervisor._jobs.values():
            supervisor._check(one, stage.now)
        supervisor._recorded_runs(stage.now)
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
        assert {(Phase.WAITING, 0)} == {
            (one.state.phase, one.state.failures) for one in supervisor._jobs.values()
        }
        stage.ahead_s = 400
        stage.until_runs(supervisor, "a", "b")
    for name in ("a", "b"):
        assert [(ExitKind.STOPPED, "its supervisor ended before the run began"), (None, "")] == [
            (run.kind, run.sentence) for run in stage.runs(name)
        ]


def test_a_killed_run_leaves_no_secrets(stage: Stage) -> None:
    """Somebody kills a run while Spark starts. The supervisor removes the file with its settings,
    and so do the next supervisor and ``down``."""
    for name in ("ended", "removed", "down"):
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    files = {
        name: stage.storage / name / ".spark.properties" for name in ("ended", "removed", "down")
    }
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, *files)
        for file in files.values():
            file.write_text("secret")
        os.kill(stage.runs("ended")[0].pid or 0, signal.SIGKILL)
        stage.until_phase(supervisor, "ended", Phase.BACKOFF)
        assert [False, True, True] == [file.exists() for file in files.values()]
    stage.job("removed", CONTINUOUS + "enabled: false\n", UNTIL_TERM)
    with stage.supervisor():
        assert [False, False, True] == [file.exists() for file in files.values()]
    with stage.store() as store:
        stage.change("UPDATE supervisor SET process_started_s = 0")
        control.shut_down(stage.project, store, timeout_s=PATIENCE_S)
    assert not files["down"].exists()


def test_a_set_clock_costs_no_run(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sets the clock by an hour, and psutil's start times move with it. The next
    supervisor still adopts the run, and the commands still see the supervisor."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        pid = stage.runs("a")[0].pid
        create_time = psutil.Process.create_time
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: create_time(self) + 3600)
        with stage.store() as store:
            assert os.getpid() == read_status(stage.project, store, stage.now).supervisor
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)

        assert [(pid, None)] == [(run.pid, run.kind) for run in stage.runs("a")]


def test_a_clock_set_back_between_two_supervisors_costs_no_run(stage: Stage) -> None:
    """Somebody sets the clock back while no supervisor runs. To the next one, the run seems to
    begin in the future. It still hears the run, and does not end it as silent."""
    stage.job("a", CONTINUOUS + "health: {noProgress: 60s}\n", UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
    stage.change("UPDATE runs SET started_s = started_s + 3600")
    with stage.store() as store:
        state = store.states()["a"]
        store.save({"a": replace(state, started_s=(state.started_s or 0.0) + 3600)})
    with stage.supervisor() as supervisor:
        for _ in range(3):
            stage.ahead_s += 40
            write_pulse(stage.storage / "a", Pulse(at=stage.now, batch=4))
            supervisor.tick(stage.now)

        assert [None] == [run.kind for run in stage.runs("a")]
        assert Phase.RUNNING is stage.phase("a")
        with stage.store() as store:
            assert [4] == [job.batch for job in read_status(stage.project, store, stage.now).jobs]


@pytest.mark.parametrize("killed", [True, False])
def test_a_clock_that_was_wrong_delays_no_job(stage: Stage, killed: bool) -> None:
    """The clock was a day ahead until the supervisor ended. A job after another one still runs when
    that one has finished."""
    stage.job("a", ONCE, COPY_REPORT.format(kind="finished"))
    stage.job("b", ONCE + "after: a\n", COPY_REPORT.format(kind="finished"))
    with stage.supervisor() as supervisor:
        stage.until(supervisor, lambda: len(stage.runs("b")) == 1)
        stage.until(supervisor, lambda: stage.runs("b")[0].ended_s)
        if not killed:
            supervisor.run(stop=lambda: True, hurry=lambda: True)
    with stage.store() as store:
        ahead = {
            name: after_clock_step(UNREAD, state, 86400.0, stage.now)
            for name, state in store.states().items()
        }
        store.save(ahead)
    with stage.supervisor() as supervisor:
        stage.ask("a", Order.START)
        stage.until(supervisor, lambda: len(stage.runs("b")) == 2)


def test_a_mistake_at_night_costs_its_own_job_alone(stage: Stage) -> None:
    """A new supervisor refuses a project with a mistake; one after a kill goes on with the other
    jobs, and takes the wrong one, which has run on, when its file is mended."""
    stage.job("good", CONTINUOUS, UNTIL_TERM)
    stage.job("wrong", CONTINUOUS + "a: 1\n", UNTIL_TERM)
    with pytest.raises(ConfigError, match="the key a is not known"):
        stage.supervisor().__enter__()
    stage.job("wrong", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "good", "wrong")
    stage.job("wrong", CONTINUOUS + "a: 1\n", UNTIL_TERM)
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
        stage.job("wrong", CONTINUOUS, UNTIL_TERM)
        for order, phase in ((Order.START, Phase.RUNNING), (Order.STOP, Phase.STOPPED)):
            for name in ("good", "wrong"):
                stage.ask(name, order)
                stage.until_phase(supervisor, name, phase)

    assert [ExitKind.STOPPED] == [run.kind for run in stage.runs("wrong")]
    assert [] == stage.processes()


def test_nothing_of_a_run_is_left_beside_the_next(stage: Stage) -> None:
    """When a run's leader is killed, all it has started is killed before it runs again."""
    child = "sh -c 'trap : TERM HUP; while :; do sleep 0.1; done' &\n"
    stage.job("a", CONTINUOUS, child + "while :; do sleep 0.1; done")
    with stage.supervisor() as supervisor:
        stage.until(supervisor, lambda: len(stage.processes()) >= 3)
        os.kill(stage.runs("a")[0].pid or 0, signal.SIGKILL)
        stage.until_phase(supervisor, "a", Phase.BACKOFF)

        assert [] == stage.processes()


def test_the_end_ends_all(stage: Stage) -> None:
    """At the supervisor's end no job runs; the next one begins anew, but for what was paused."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    stage.job("b", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a", "b")
        stage.ask("a", Order.PAUSE)
        stage.until_phase(supervisor, "a", Phase.PAUSED)
        supervisor.run(stop=lambda: True, hurry=lambda: False)

        assert [] == stage.processes()
    with stage.supervisor() as supervisor:
        stage.until(supervisor, lambda: len(stage.runs("b")) == 2)

        assert Phase.PAUSED is stage.phase("a")
        supervisor.run(stop=lambda: True, hurry=lambda: True)
    assert [ExitKind.STOPPED, ExitKind.KILLED] == [run.kind for run in stage.runs("b")]


def test_a_graceful_restart_loses_no_run(stage: Stage) -> None:
    """A cron job runs after it, if its time passed meanwhile; one whose run ``down`` has
    interrupted goes on, and so does a job that waits for others."""
    hourly = CONTINUOUS.replace("processingTime: 2s", 'cron: "0 * * * *"')
    stage.job("first", ONCE, COPY_REPORT.format(kind="finished"))
    stage.job("chained", ONCE + "after: first\n", UNTIL_TERM)
    stage.job("cut", hourly, UNTIL_TERM)
    stage.job("missed", hourly, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.ask("cut", Order.START)
        stage.until_runs(supervisor, "cut", "chained")
        supervisor.run(stop=lambda: True, hurry=lambda: False)
    stage.change("UPDATE supervisor SET ended_s = ended_s - 3600")
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "missed")
        stage.until(supervisor, lambda: len(stage.runs("cut")) == len(stage.runs("chained")) == 2)


def test_the_second_signal_hurries() -> None:
    """Signals are counted, whatever they interrupt: one to end, one more not to wait."""
    seen = []
    with _signals() as (stop, hurry):
        for number in (None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number is not None:
                signal.raise_signal(number)
            seen.append((stop(), hurry()))

    assert [(False, False), (True, False), (True, True), (True, True)] == seen


def test_jobs_after_others_and_room_for_one(stage: Stage) -> None:
    """A job after another starts when that one has finished; no more run at once than may."""
    kfetch = stage.directory / "conf" / "kfetch.yml"
    kfetch.write_text(kfetch.read_text() + "concurrency: 1\n")
    stage.job("a", ONCE + "after: b\n", COPY_REPORT.format(kind="finished"))
    stage.job("b", ONCE, COPY_REPORT.format(kind="finished"))
    stage.job("c", ONCE, COPY_REPORT.format(kind="finished"))
    with stage.supervisor() as supervisor:
        stage.until(supervisor, lambda: stage.runs("a") and stage.runs("a")[0].ended_s)
        stage.until_phase(supervisor, "c", Phase.FINISHED)
        supervisor.tick(stage.now)

    runs = sorted((run for name in "abc" for run in stage.runs(name)), key=lambda run: run.id)
    assert [run.job for run in runs].index("b") < [run.job for run in runs].index("a")
    assert 3 == len(runs)


def test_only_one_supervises(stage: Stage) -> None:
    """A second supervisor of the storage is refused, and told who the first one is."""
    with stage.supervisor(), pytest.raises(SupervisorError, match=rf"process {os.getpid()}\)"):
        stage.supervisor().__enter__()


def test_down_ends_what_a_killed_supervisor_left(stage: Stage) -> None:
    """Without a supervisor, ``down`` ends the jobs itself, and notes it."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
    stage.commit("a", batches=2, rows=7)
    with stage.store() as store:
        # The database names this test's process as the supervisor: as if it were gone.
        stage.change("UPDATE supervisor SET process_started_s = 0")

        assert 1 == control.shut_down(stage.project, store, timeout_s=PATIENCE_S)
    assert [(ExitKind.STOPPED, 7)] == [(run.kind, run.rows) for run in stage.runs("a")]
    assert [] == stage.processes()


def test_orders_wait_and_are_answered(stage: Stage) -> None:
    """An order without a supervisor is kept for the next one; one that can't be done says why."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.store() as store:
        assert control.give_order(stage.project, store, ["a"], Order.STOP) is None
    stage.job("b", CONTINUOUS + "enabled: false\n", UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        first = store.add_order("b", Order.START, stage.now)
        (stage.directory / "conf" / "jobs" / "a.yml").write_text(JOB + "a: 1\n")
        second = store.add_order("a", Order.START, stage.now)
        supervisor.tick(stage.now)

        assert Phase.STOPPED is stage.phase("a")
        b, a = (OrderReply.from_text(str(store.reply_to(one))) for one in (first, second))
        assert "job b is disabled in its file: enabled: false" == b.message
        assert a.message.startswith("conf/jobs/a.yml:14: the key a is not known")


def test_a_bug_over_one_file_costs_its_own_job_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The overview shows it as that job's mistake, an order is answered with it, the others go on;
    its trace is logged, once however often somebody looks."""

    def read(path: Path, *more: Any) -> yamlfile.Document:
        if path.stem == "odd":
            raise KeyError("hunter42")
        return yamlfile.read(path, *more)

    stage.job("good", CONTINUOUS, UNTIL_TERM)
    stage.job("odd", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        stage.until_runs(supervisor, "good", "odd")
        monkeypatch.setattr("kfetch_jobs.config.project.read", read)
        asked = store.add_order("odd", Order.RESTART, stage.now)
        supervisor.tick(stage.now)
        answer = OrderReply.from_text(str(store.reply_to(asked))).message
        for _ in range(9):
            good, odd = read_status(stage.project, store, stage.now).jobs

        assert answer.startswith(
            "job odd cannot be read: KeyError: this is a bug of kfetch: the lo"
        )
        assert ((answer,), answer, Phase.RUNNING) == (odd.unhealthy, odd.mistake, odd.phase)
        assert ((), Phase.RUNNING) == (good.unhealthy, good.phase)
        assert [answer] == stage.project.jobs_and_mistakes()[1]
        assert "hunter42" not in answer
        places = ("in _reread", "in _job_or_error")
        assert [1, 1] == [caplog.text.count(place) for place in places]


def test_a_silent_job_is_killed_three_times(stage: Stage) -> None:
    """Then it runs on, and ``status`` says so, until a micro-batch ends."""
    stage.job("a", CONTINUOUS + "health: {noProgress: 60 s}\n", UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        for run in range(1, 4):
            stage.until(supervisor, lambda run=run: len(stage.runs("a")) == run)
            stage.until_runs(supervisor, "a")
            (stage.directory / "a.on").unlink()
            stage.ahead_s += 100
            stage.until_phase(supervisor, "a", Phase.BACKOFF)
            stage.ahead_s += 400
        stage.until_runs(supervisor, "a")
        stage.ahead_s += 100
        supervisor.tick(stage.now)
        (shown,) = read_status(stage.project, store, stage.now).jobs

        assert Phase.RUNNING is shown.phase
        assert re.fullmatch(
            r"no progress for 1\d\d s, more than 60; killed 3 times at this micro-batch, so the "
            "supervisor lets it run",
            shown.unhealthy[0],
        )
        assert [ExitKind.HUNG] * 3 == [run.kind for run in stage.runs("a")[:3]]
        write_pulse(stage.storage / "a", Pulse(at=stage.now, batch=4, lag=0))
        supervisor.tick(stage.now)
        stage.ahead_s += 100
        stage.until_phase(supervisor, "a", Phase.BACKOFF)


def test_what_is_shown(stage: Stage) -> None:
    """The overview tells phases and why jobs are unhealthy; with a job given up all is not well."""
    stage.job("a", CONTINUOUS + "health: {lagRecords: 10, lagSeconds: 60}\n", UNTIL_TERM)
    stage.job("b", CONTINUOUS, COPY_REPORT.format(kind="data_loss"))
    stage.job("c", CONTINUOUS + "enabled: false\n", UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        stage.until_phase(supervisor, "b", Phase.FAILED)
        now = stage.now
        write_pulse(stage.storage / "a", Pulse(at=now - 5, batch=4, lag=11, lag_s=56))
        stage.change("UPDATE runs SET started_s = started_s - 10")
        found = read_status(stage.project, store, now)
        a, b, c = found.jobs

        assert (os.getpid(), False) == (found.supervisor, found.healthy)
        assert ("11 records behind, more than 10", "61 s behind, more than 60") == a.unhealthy
        assert (Phase.RUNNING, 4, 11) == (a.phase, a.batch, a.lag)
        assert ("given up: it was data_loss",) == b.unhealthy
        assert (None, False, ()) == (c.phase, c.enabled, c.unhealthy)
        json.dumps(found.to_json())
