"""Somebody sets the clock: durations stay, and due times are planned again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kfetch_jobs.config import JobFile
from kfetch_jobs.progress.exit_report import ExitKind
from kfetch_jobs.progress.reports import Pulse, write_pulse
from kfetch_jobs.supervise.job_state import JobState, Phase
from kfetch_jobs.supervise.state_machine import (
    after_clock_step,
    after_exit,
    after_launch,
    planned_again,
)
from kfetch_jobs.supervise.status_reader import read_status
from kfetch_jobs.supervise.wall_clock import WallClock
from tests.kfetch_jobs.stage import CONTINUOUS, UNTIL_TERM, Stage
from tests.kfetch_jobs.supervise.job_files import job_file

NOW = 1_700_000_000.0  # Tue Nov 14 2023 22:13:20 UTC
NEXT_HOUR = 1_700_002_800.0
MINUTE, HOUR, WEEK = 60.0, 3600.0, 7 * 86_400.0
HOURLY = job_file({"cron": "0 * * * *"}, restart={"jitter": 0.0})
ENDLESS = job_file("continuous")
WAITING = JobState(phase=Phase.WAITING, since_s=NOW, due_s=NEXT_HOUR)


def test_a_job_that_ends_under_a_wrong_clock() -> None:
    """The clock is a week ahead when an hourly run ends. After its correction, the job is due at
    the next full hour; also if the supervisor was killed meanwhile."""
    ahead = NOW + WEEK
    state = after_launch(HOURLY, WAITING, ahead)
    state = after_exit(HOURLY, state, ExitKind.FINISHED, "", ahead, 0.0)

    assert NEXT_HOUR + WEEK == state.due_s
    assert NEXT_HOUR == after_clock_step(HOURLY, state, -WEEK, NOW).due_s
    assert NEXT_HOUR == planned_again(HOURLY, state, NOW).due_s


@pytest.mark.parametrize(
    ("file", "state", "step_s", "due_s"),
    [
        (HOURLY, WAITING, MINUTE, NEXT_HOUR),
        (HOURLY, WAITING, WEEK, NEXT_HOUR),  # its time has come: one run
        (HOURLY, replace(WAITING, due_s=NOW - 1), -WEEK, NOW - 1 - WEEK),  # it waits for room
        # At 22:13 the clock goes back to 21:58, before the full hour that had its run.
        (HOURLY, WAITING, -15 * MINUTE, NEXT_HOUR),
        (HOURLY, WAITING, -4 * HOUR, NEXT_HOUR - 4 * HOUR),
        (HOURLY, replace(WAITING, due_s=None), -WEEK, None),
        (HOURLY, replace(WAITING, phase=Phase.BACKOFF, due_s=NOW + 5), WEEK, NOW + 5 + WEEK),
        (ENDLESS, replace(WAITING, due_s=NOW), -WEEK, NOW - WEEK),
    ],
)
def test_due_times(file: JobFile, state: JobState, step_s: float, due_s: float | None) -> None:
    """A cron time follows the new clock. What waits for a duration waits as long as before."""
    assert due_s == after_clock_step(file, state, step_s, NOW + step_s).due_s


@pytest.mark.parametrize("step_s", [WEEK, -WEEK])
def test_durations_stay(step_s: float) -> None:
    """The time since each moment of a state is as before."""
    state = JobState(
        phase=Phase.RUNNING, since_s=NOW - 1, ready_s=NOW - 2, started_s=NOW - 3, finished_s=NOW - 4
    )
    state = after_clock_step(ENDLESS, state, step_s, NOW + step_s)
    moments = (state.since_s, state.ready_s, state.started_s, state.finished_s)

    assert [1, 2, 3, 4] == [NOW + step_s - at for at in moments if at is not None]


def test_only_a_set_clock_is_a_step() -> None:
    """Time that passes is no step, nor is the small correction of a time server."""
    wall, steady = NOW, 5.0
    clock = WallClock(lambda: wall, lambda: steady)
    wall, steady = wall + 100, steady + 99.0
    assert 0.0 == clock.step_s()
    wall -= HOUR
    assert 1 - HOUR == clock.step_s()
    clock.accept()
    assert 0.0 == clock.step_s()


def test_a_small_correction_is_no_hung_round() -> None:
    """A round is late if it hung. A clock that a time server has put back by less than a step does
    not make it late: a job that ends then would miss a due time right after it."""
    wall, steady = NOW, 5.0
    clock = WallClock(lambda: wall, lambda: steady)
    wall, steady = wall + 100, steady + 101.5
    assert wall == clock.late(wall)
    steady += 30
    assert wall + 31.5 == clock.late(wall)


@pytest.mark.parametrize("step_s", [WEEK, -WEEK])
def test_a_step_ends_no_job(stage: Stage, step_s: float) -> None:
    """A running job with ``noProgress`` is still healthy after a step, and its run goes on. When
    its query is silent for longer than the limit after that, it ends."""
    stage.job("a", CONTINUOUS + "health: {noProgress: 60 s, startWithin: 60 s}\n", UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        supervisor._clock = WallClock(lambda: stage.now)
        stage.until_runs(supervisor, "a")
        stage.ahead_s = step_s
        assert supervisor._tick_succeeded()
        pulse = Pulse(at=stage.now, batch=None)
        write_pulse(stage.storage / "a", pulse)
        assert supervisor._tick_succeeded()
        found = read_status(stage.project, store, stage.now)

        assert (Phase.RUNNING, True) == (found.jobs[0].phase, found.healthy)
        assert found.jobs[0].pulse_s is not None
        assert abs(stage.now - (found.supervised_s or 0.0)) < MINUTE
        supervisor.tick(stage.now + 61)
        assert Phase.STOPPING is stage.phase("a")
