"""Jobs that wait for room beside others: their order, and how status shows them."""

from __future__ import annotations

import pytest

from kfetch_jobs.supervise.job_state import Action, Facts, JobState, Order, Phase
from kfetch_jobs.supervise.state_machine import interrupt, jobs_ahead, tick
from kfetch_jobs.supervise.status_reader import read_status
from tests.kfetch_jobs.stage import CONTINUOUS, UNTIL_TERM, Stage
from tests.kfetch_jobs.supervise.job_files import job_file

ENDLESS = job_file("continuous")
FULL = Facts(now=2.0, has_room=False)
DUE = JobState(phase=Phase.WAITING, since_s=0.0, due_s=0.0)


def limit(stage: Stage, concurrency: int) -> None:
    file = stage.directory / "conf" / "kfetch.yml"
    file.write_text(f"{file.read_text()}concurrency: {concurrency}\n")


def test_a_job_without_room_is_unhealthy_in_time(stage: Stage) -> None:
    """Of three endless jobs with room for two, the third waits at place 1. After five minutes it
    is unhealthy, and so is the project."""
    limit(stage, 2)
    for name in "abc":
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor, stage.store() as store:
        stage.until_runs(supervisor, "a", "b")
        soon = read_status(stage.project, store, stage.now)
        stage.ahead_s = 301
        supervisor.tick(stage.now)
        late = read_status(stage.project, store, stage.now)

        assert ([None, None, 1], True) == ([job.queue_place for job in soon.jobs], soon.healthy)
        assert not late.healthy
        assert late.jobs[2].unhealthy[0].startswith("no room to run for 3")
        assert (
            late.jobs[2]
            .unhealthy[0]
            .endswith(
                " s, more than 300: place 1 in the queue: raise concurrency, or stop another job"
            )
        )


def test_the_job_that_has_waited_longest_runs_next(stage: Stage) -> None:
    """A job that becomes due later does not take the room, whatever its name."""
    limit(stage, 1)
    for name in "abc":
        stage.job(name, CONTINUOUS, UNTIL_TERM)
    with stage.supervisor() as supervisor:
        stage.until_runs(supervisor, "a")
        for order, phase in ((Order.PAUSE, Phase.PAUSED), (Order.RESUME, Phase.WAITING)):
            stage.ask("b", order)
            stage.until_phase(supervisor, "b", phase)
        stage.ask("a", Order.STOP)
        stage.until_runs(supervisor, "c")

        assert Phase.WAITING is stage.phase("b")


def test_the_queue() -> None:
    """Jobs that somebody started come first, then those that have waited longest."""
    states = {
        name: JobState(phase=Phase.WAITING, since_s=0.0, ready_s=ready_s, forced=forced)
        for name, ready_s, forced in [
            ("a", 9.0, False), ("b", 5.0, False), ("c", 9.0, True), ("d", 9.0, False),
            ("later", None, False), ("started", None, True),
        ]
    }  # fmt: skip

    assert {"c": 0, "started": 1, "b": 1, "a": 2, "d": 3, "later": 4} == {
        name: jobs_ahead(name, states) for name in states
    }


@pytest.mark.parametrize(
    "facts",
    [Facts(now=3.0, has_file=False, has_room=False), Facts(now=3.0, upstream_finished=False)],
)
def test_a_job_that_waits_for_something_else_leaves_the_queue(facts: Facts) -> None:
    """Only a job that could run now keeps its place, from the moment when only room was missing."""
    state, none = tick(ENDLESS, DUE, FULL)
    again, _ = tick(ENDLESS, state, Facts(now=3.0, has_room=False))

    assert (2.0, 2.0, None) == (state.ready_s, again.ready_s, none)
    assert None is tick(ENDLESS, state, facts)[0].ready_s
    assert None is interrupt(state, 3.0).ready_s
    assert Action.LAUNCH is tick(ENDLESS, state, Facts(now=3.0))[1]
