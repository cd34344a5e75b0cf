"""A job that can't be started now stays supervised, says why, and starts when that has passed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from kfetch_jobs.config import Job
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.supervise import supervisor as supervisor_module
from kfetch_jobs.supervise.job_state import JobState, Order, Phase
from kfetch_jobs.supervise.status import JobStatus
from kfetch_jobs.supervise.status_reader import read_status
from tests.kfetch_jobs.stage import CONTINUOUS, COPY_REPORT, ONCE, UNTIL_TERM, Stage

HOURLY = CONTINUOUS.replace("processingTime: 2s", 'cron: "0 * * * *"')
SHARED = CONTINUOUS.replace("${storage}/clicks/table", "${storage}/shared")


@pytest.fixture(autouse=True)
def read_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor reads an invalid file in each round."""
    monkeypatch.setattr(supervisor_module, "_READ_S", 0.0)


def state(stage: Stage, name: str) -> JobState:
    with stage.store() as store:
        return store.states()[name]


def shown(stage: Stage, name: str) -> JobStatus:
    with stage.store() as store:
        jobs = read_status(stage.project, store, stage.now).jobs
    return next(job for job in jobs if job.name == name)


def with_secret(text: str, stage: Stage) -> str:
    """Returns a job's file that needs a file which is not there yet."""
    secret = f"${{file:{stage.directory / 'secret'}}}"
    return text.replace("startingOffsets: earliest", f"startingOffsets: {secret}")


def mount_secret(stage: Stage) -> None:
    (stage.directory / "secret").write_text("earliest")


@pytest.fixture
def a_job(stage: Stage) -> Callable[..., Stage]:
    """Makes a supervisor's job, which has run or waited when the machine lost its power."""

    def make(text: str, order: Order | None = None) -> Stage:
        stage.job("a", text, UNTIL_TERM)
        with stage.supervisor() as first:
            if order:
                stage.ask("a", order)
            first.tick(stage.now)
            if text is CONTINUOUS and order is None:
                stage.until_runs(first, "a")
        stage.clear()
        (stage.directory / "a.on").unlink(missing_ok=True)
        stage.job("a", with_secret(text, stage), UNTIL_TERM)
        return stage

    return make


def test_a_secret_that_comes_late(a_job: Callable[..., Stage]) -> None:
    """After a power cut, a job's secret is not mounted yet. The supervisor records that the run has
    ended. Until the secret is there, the job is unhealthy. Then it runs."""
    stage = a_job(CONTINUOUS)
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "a", Phase.BACKOFF)
        supervisor.tick(stage.now)

        assert [ExitKind.KILLED] == [run.kind for run in stage.runs("a")]
        assert "secret" in state(stage, "a").refusal
        assert (None, True) == (shown(stage, "a").pid, "secret" in shown(stage, "a").unhealthy[0])
        mount_secret(stage)
        stage.ahead_s = 400
        stage.until_runs(supervisor, "a")
        assert ("", ()) == (state(stage, "a").refusal, shown(stage, "a").unhealthy)


def test_a_secret_that_only_the_supervisor_lacks(a_job: Callable[..., Stage]) -> None:
    """``status`` can read the file, and says what the supervisor says."""
    stage = a_job(ONCE)
    with stage.supervisor() as supervisor:
        stage.until(supervisor, lambda: state(stage, "a").refusal)
        mount_secret(stage)

        assert "" == shown(stage, "a").mistake
        assert shown(stage, "a").unhealthy[0].startswith("it can't start: conf/jobs/a.yml:5: ")


def test_a_cron_job_keeps_its_time(a_job: Callable[..., Stage]) -> None:
    """Its file is valid again before its time: it does not run earlier."""
    stage = a_job(HOURLY)
    due_s = state(stage, "a").due_s
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
        assert (due_s, True) == (state(stage, "a").due_s, bool(state(stage, "a").refusal))
        mount_secret(stage)
        supervisor.tick(stage.now)
        assert (due_s, "", []) == (
            state(stage, "a").due_s,
            state(stage, "a").refusal,
            stage.runs("a"),
        )
        stage.ahead_s = 3601
        stage.until_runs(supervisor, "a")


@pytest.mark.parametrize("supervisors", [1, 2])
def test_a_new_cron_job_waits_for_its_time(stage: Stage, supervisors: int) -> None:
    """A killed supervisor has not seen the job. Its file can be read only later, perhaps by a
    third supervisor. Then the job waits for its first time."""
    with stage.supervisor():
        pass
    stage.job("a", with_secret(HOURLY, stage), UNTIL_TERM)
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
        mount_secret(stage)
        if supervisors == 1:
            supervisor.tick(stage.now)
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
        due_s = state(stage, "a").due_s
        assert (0.0, []) == ((due_s or 1.0) % 3600, stage.runs("a"))
        stage.ahead_s = 3601
        stage.until_runs(supervisor, "a")


@pytest.mark.parametrize("adopted", [False, True])
def test_a_finished_job_does_not_run_again(stage: Stage, adopted: bool) -> None:
    """Its supervisor was killed, before or after it saw the end of the run. The job's file can be
    read only later. Then the job has still finished."""
    stage.job("a", ONCE, COPY_REPORT.format(kind="finished"))
    with stage.supervisor() as first:
        first.tick(stage.now)
        if not adopted:
            stage.until_phase(first, "a", Phase.FINISHED)
    file = stage.directory / "conf" / "jobs" / "a.yml"
    file.write_text(with_secret(file.read_text(), stage))
    with stage.supervisor() as supervisor:
        stage.until_phase(supervisor, "a", Phase.FINISHED)
        mount_secret(stage)
        stage.ahead_s = 400
        for _ in range(2):
            supervisor.tick(stage.now)
        assert (Phase.FINISHED, [ExitKind.FINISHED]) == (
            stage.phase("a"),
            [run.kind for run in stage.runs("a")],
        )


def test_a_paused_job_stays_so(a_job: Callable[..., Stage]) -> None:
    """Neither its mistake nor the mended file changes that."""
    stage = a_job(HOURLY, Order.PAUSE)
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
        mount_secret(stage)
        supervisor.tick(stage.now)
        assert (Phase.PAUSED, "") == (state(stage, "a").phase, state(stage, "a").refusal)


def test_a_job_that_never_ran_can_be_stopped(a_job: Callable[..., Stage]) -> None:
    """``stop`` reaches a job with an invalid file. It does not start when the file is valid."""
    stage = a_job(CONTINUOUS)
    with stage.supervisor() as supervisor:
        stage.ask("a", Order.STOP)
        stage.until_phase(supervisor, "a", Phase.STOPPED)
        mount_secret(stage)
        supervisor.tick(stage.now + 400)
        assert Phase.STOPPED is stage.phase("a")


def test_a_run_without_a_readable_file_is_watched(stage: Stage) -> None:
    """A run lives on, and its secret is gone. The supervisor adopts it, and its own end ends it."""
    stage.job("a", with_secret(CONTINUOUS, stage), UNTIL_TERM)
    mount_secret(stage)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
    (stage.directory / "secret").unlink()
    with stage.supervisor() as supervisor:
        supervisor.tick(stage.now)
        assert stage.processes()
        supervisor.run(stop=lambda: True, hurry=lambda: False)
    assert [ExitKind.STOPPED] == [run.kind for run in stage.runs("a")]
    assert [] == stage.processes()


def test_a_checkpoint_that_comes_late(stage: Stage) -> None:
    """The disk of a checkpoint is mounted late. No run starts anew, and the job is unhealthy. When
    the checkpoint is there, the job runs."""
    stage.job("a", CONTINUOUS, UNTIL_TERM)
    checkpoint, away = stage.storage / "a" / "checkpoint", stage.storage / "away"
    (stage.storage / "a").mkdir(parents=True)
    stage.commit("a", batches=2, rows=7)
    checkpoint.rename(away)
    with stage.supervisor() as supervisor:
        for _ in range(3):
            supervisor.tick(stage.now)
            stage.ahead_s += 100
            assert (
                shown(stage, "a")
                .unhealthy[0]
                .startswith("it can't start: job a has no offsets in its checkpoint")
            )
        assert (Phase.WAITING, []) == (stage.phase("a"), stage.runs("a"))
        away.rename(checkpoint)
        stage.until_runs(supervisor, "a")


@pytest.mark.parametrize("order", [Order.STOP, Order.PAUSE])
def test_a_copied_job_needs_an_order(stage: Stage, order: Order) -> None:
    """After a kill, the copy of a job is unhealthy. It starts neither while the other one runs nor
    when somebody stops that. An order starts it."""
    with stage.supervisor():
        pass
    for name in ("first", "second"):
        stage.job(name, SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "first")
        supervisor.tick(stage.now)
        assert "job first writes the same rows" in shown(stage, "second").unhealthy[0]
        stage.ask("first", order)
        stage.until(supervisor, lambda: not stage.processes())
        stage.ahead_s = 400
        supervisor.tick(stage.now)
        assert [] == stage.runs("second")
        stage.ask("second", Order.START)
        stage.until_runs(supervisor, "second")


def test_a_run_that_failed_stays_the_writer(stage: Stage) -> None:
    """The copy of a living run has been refused. It does not start during that run's back-off."""
    stage.job("second", SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "second")
    stage.job("first", SHARED, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until(supervisor, lambda: state(stage, "first").refusal)
        os.kill(stage.runs("second")[0].pid or 0, signal.SIGKILL)
        stage.until_phase(supervisor, "second", Phase.BACKOFF)
        stage.ahead_s = 400
        stage.until(supervisor, lambda: len(stage.runs("second")) == 2)
        assert [] == stage.runs("first")


def test_two_copies_that_wait_do_not_start_together(stage: Stage) -> None:
    """The checkpoints of both come late, and both are due in one round. One of them starts."""
    with stage.supervisor():
        pass
    for name in ("first", "second"):
        stage.job(name, SHARED, UNTIL_TERM)
        (stage.storage / name).mkdir(parents=True)
        stage.commit(name, batches=2, rows=7)
        (stage.storage / name / "checkpoint").rename(stage.storage / f"away-{name}")
    with stage.supervisor() as supervisor:
        stage.until(supervisor, lambda: all(state(stage, n).refusal for n in ("first", "second")))
        for name in ("first", "second"):
            (stage.storage / f"away-{name}").rename(stage.storage / name / "checkpoint")
        stage.ahead_s = 400
        stage.until_runs(supervisor, "first")
        assert [1, 0] == [len(stage.runs(name)) for name in ("first", "second")]


def test_a_later_start_reads_no_checkpoint(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first start of a job does, in this process. A disk that hangs then hangs no loop."""
    looks: list[str] = []

    def look(job: Job) -> str:
        looks.append(job.name)
        return ""

    monkeypatch.setattr(supervisor_module, "fresh_start_refusal", look)
    stage.job("a", CONTINUOUS + "restart:\n  initial: 100ms\n", UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        os.kill(stage.runs("a")[0].pid or 0, signal.SIGKILL)
        stage.until(supervisor, lambda: len(stage.runs("a")) == 2)
    assert ["a"] == looks
