"""Orders to a supervisor: what their commands print, and with which code they end."""

from __future__ import annotations

import json
import threading

import pytest

from kfetch_jobs.errors import SupervisorError
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise import control
from kfetch_jobs.supervise.job_state import JobState, Order, Phase
from kfetch_jobs.supervise.order_reply import TOO_LATE, OrderReply
from kfetch_jobs.supervise.supervised_job import SupervisedJob
from kfetch_jobs.supervise.supervisor import Supervisor
from kfetch_jobs.util.wording import utc
from tests.kfetch_jobs.commands import Command
from tests.kfetch_jobs.projects import ENVIRON
from tests.kfetch_jobs.stage import CONTINUOUS, ONCE, UNTIL_TERM, Stage


@pytest.fixture
def ordered(stage: Stage, kfetch: Command, monkeypatch: pytest.MonkeyPatch) -> Ordered:
    """``ordered(supervisor, "start", "a")``: code, output and error of the command."""
    monkeypatch.setenv("SERVERS", ENVIRON["SERVERS"])
    return Ordered(stage, kfetch)


class Ordered:
    """A command beside a supervisor's loop."""

    def __init__(self, stage: Stage, kfetch: Command) -> None:
        self._stage = stage
        self._kfetch = kfetch

    def __call__(self, supervisor: Supervisor, *words: str) -> tuple[int, str, str]:
        got: list[tuple[int, str, str]] = []
        told = (*words, "--project", str(self._stage.project.path))
        command = threading.Thread(target=lambda: got.append(self._kfetch(*told)))
        command.start()
        self._stage.until(supervisor, lambda: not command.is_alive())
        return got[0]


def test_a_running_job_whose_file_has_changed(stage: Stage, ordered: Ordered) -> None:
    """``start`` says that the process goes on with the file that it began with, and what to do."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        stage.job("a", CONTINUOUS, UNTIL_TERM)
        assert (0, "a: running\n", "") == ordered(supervisor, "start", "a")

        stage.job("a", CONTINUOUS + "stopWithin: 90 s\n", UNTIL_TERM)
        began = utc(stage.runs("a")[0].started_s)
        note = (
            f"a runs with its file of {began}, which has changed since: kfetch restart a takes the "
            "new one"
        )

        assert (0, f"a: running\n{note}\n", "") == ordered(supervisor, "start", "a")
        code, out, _ = ordered(supervisor, "start", "a", "--json")
        assert (0, {"taken": True, "jobs": {"a": "running"}, "notes": [note]}) == (
            code,
            json.loads(out),
        )


def test_a_restart_is_over_when_its_command_is(stage: Stage, ordered: Ordered) -> None:
    """As ``stop`` does, it returns when the run before has ended; and then the next one goes."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        assert (0, "a: running\n", "") == ordered(supervisor, "restart", "a")

        before, after = stage.runs("a")
        assert (ExitKind.STOPPED, None) == (before.kind, after.kind)


def test_a_restart_that_takes_too_long(stage: Stage, ordered: Ordered) -> None:
    """A micro-batch that does not end is told, and the code is 1; the order stands. Of several
    jobs those are named that have not ended; and who starts one of them waits for that, too."""
    stage.job("a", CONTINUOUS, UNTIL_TERM.replace('cp "$REPORTS/stopped.json" "$1"; exit', ":"))
    stage.job("b", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a", "b")
        assert 0 == ordered(supervisor, "restart", "b")[0]
        code, _, said = ordered(supervisor, "restart", "b", "a", "--timeout", "3")

        assert (1, "kfetch: still running after 3 s: a [SUPERVISOR_ERROR]\n") == (code, said)
        assert Phase.STOPPING is stage.phase("a")


@pytest.mark.parametrize("order", [Order.START, Order.RESUME, Order.RESTART])
def test_what_begins_is_waited_for(stage: Stage, order: Order) -> None:
    """A run that is still ending, and then one that is due: only when it goes is the order done."""
    phases = [Phase.STOPPING, Phase.WAITING, Phase.RUNNING]
    states = [JobState(since_s=0.0, phase=phase, due_s=0.0) for phase in phases]
    seen = []

    class Looked:
        def states(self) -> dict[str, JobState]:
            seen.append(states[min(len(seen), len(states) - 1)])
            return {"a": seen[-1]}

    control.wait_until_done(Looked(), ["a"], order, timeout_s=60.0)  # type: ignore[arg-type]

    assert states == seen[:3]


def test_a_job_that_waits_for_room(
    stage: Stage, ordered: Ordered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a run that has no room: the command says that it waits."""
    monkeypatch.setattr(control, "_STARTED_WITHIN_S", 0.1)
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    file = stage.directory / "conf" / "kfetch.yml"
    file.write_text(f"{file.read_text()}concurrency: 1\n")
    stage.job("b", ONCE, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        for order in ("start", "restart"):
            assert (0, "b: waiting\n", "") == ordered(supervisor, order, "b")


def test_a_mistake_in_the_file(stage: Stage, ordered: Ordered) -> None:
    """What would begin a run with a mistake in its file is refused with 2, and changes nothing."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        assert (0, "a: paused\n", "") == ordered(supervisor, "pause", "a")
        stage.job("a", CONTINUOUS + "a: 1\n", UNTIL_TERM)
        for order in ("start", "restart", "resume"):
            code, out, said = ordered(supervisor, order, "a")

            assert (2, "", Phase.PAUSED) == (code, out, stage.phase("a"))
            assert said.startswith("kfetch: conf/jobs/a.yml:14: the key a is not known")
        stage.job("a", CONTINUOUS, UNTIL_TERM)
        assert 0 == ordered(supervisor, "resume", "a")[0]
        stage.until_phase(supervisor, "a", Phase.RUNNING)


def test_a_job_that_nobody_supervises(stage: Stage, ordered: Ordered) -> None:
    """That is no mistake in a file, but one beside it is: then the code is 2."""
    stage.job("a", CONTINUOUS + "enabled: false\n", UNTIL_TERM)
    with stage.supervisor() as supervisor:
        told = "job a is disabled in its file: enabled: false"
        assert (1, "", f"kfetch: {told} [SUPERVISOR_ERROR]\n") == ordered(supervisor, "start", "a")

        stage.job("b", CONTINUOUS + "a: 1\n", UNTIL_TERM)
        code, _, said = ordered(supervisor, "start", "a", "b")

        assert 2 == code
        assert said.startswith(f"kfetch: {told}; conf/jobs/b.yml:14: the key a is not known")


def test_answers_of_an_earlier_supervisor() -> None:
    """It may be up since before an update: it wrote a refusal's sentence, or nothing."""
    assert OrderReply() == OrderReply.from_text("") == OrderReply.from_text(OrderReply().to_text())
    assert OrderReply(message="no", exit_code=1) == OrderReply.from_text("no")


def test_a_failed_order_is_not_carried_out_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor's loop hangs, and the command reports a failure, once for all its jobs. When
    the loop goes on, the job runs on."""
    monkeypatch.setattr(control, "_REPLY_WITHIN_S", 0.05)
    monkeypatch.setattr(control, "_VALID_S", 0.04)
    for name in ("a", "b"):
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        stage.until_runs(supervisor, "a", "b")
        with pytest.raises(SupervisorError) as failure:
            control.give_order(stage.project, store, ["a", "b"], Order.STOP)
        assert failure.value.message == control._NOT_TAKEN.message
        supervisor.tick(stage.now)

        assert ([], Phase.RUNNING) == (store.waiting_orders(), stage.phase("a"))


def test_an_old_order_of_a_command_that_died_is_not_carried_out(stage: Stage) -> None:
    """Nobody has withdrawn it. The supervisor compares its end with the clock."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        stage.until_runs(supervisor, "a")
        order = store.add_order("a", Order.STOP, stage.now - 20, ends_s=stage.now - 1)
        supervisor.tick(stage.now)

        assert TOO_LATE == OrderReply.from_text(store.reply_to(order) or "")
        assert ([], Phase.RUNNING) == (store.waiting_orders(), stage.phase("a"))


def test_an_order_that_is_withdrawn_while_the_supervisor_hangs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor has looked at its end in time, and hangs before it records the reply."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        stage.until_runs(supervisor, "a")
        order = store.add_order("a", Order.STOP, stage.now)
        carry_out = supervisor._carry_out

        def carry_out_late(
            name: str, order_: Order, now: float
        ) -> tuple[SupervisedJob | None, OrderReply]:
            store.withdraw([order], TOO_LATE.to_text())
            return carry_out(name, order_, now)

        monkeypatch.setattr(supervisor, "_carry_out", carry_out_late)
        supervisor.tick(stage.now)
        supervisor.tick(stage.now)

        assert TOO_LATE == OrderReply.from_text(store.reply_to(order) or "")
        assert Phase.RUNNING is stage.phase("a")


def test_an_order_waits_for_the_next_supervisor(stage: Stage) -> None:
    """An order without a supervisor was not reported as failed. It has no end."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    with stage.store() as store:
        assert None is control.give_order(stage.project, store, ["a"], Order.PAUSE)
    stage.ahead_s = 1e6
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "a", Phase.PAUSED)
