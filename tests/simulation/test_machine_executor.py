"""Executors, workers and agents on a simulated machine: the same seed, and faults that it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulation.machine import executor
from simulation.machine.chaos import ACTS
from simulation.machine.plan import Plan, plan
from simulation.machine.planted import PLANTED

pytestmark = pytest.mark.simulation


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    executor.prepare()


def calm(seed: int) -> Plan:
    """A plan in which nothing goes wrong."""
    return replace(plan(seed), minutes=0.5, pause_s=8.0, actions=())


def test_reads_without_trouble() -> None:
    """Each executor has one agent at a time, no read fails, and nothing is left over."""
    outcome = executor.simulate(calm(2), ACTS)

    assert "" == outcome.violation
    assert (0, True) == (outcome.failed_reads, outcome.reads > 5)


def test_a_seed_tells_the_same_story_twice() -> None:
    """Nothing but the seed decides what happens."""
    first, second = (executor.simulate(plan(5), ACTS) for _ in range(2))

    assert first.story == second.story
    assert first.steps == second.steps
    assert len(first.story) > 20


FINDS = {
    "unlink-any-socket": (0, "clean_while_stopped"),
    "lock-for-the-start-alone": (12, "remove_socket"),
    "lock-of-the-worker-alone": (12, "remove_socket"),
    "socket-is-not-watched": (0, "remove_socket"),
    "segments-stay": (0, "kill_worker"),
}
"""By fault: a seed, and the one kind of trouble that shows the fault."""


@pytest.mark.parametrize("name", FINDS)
def test_planted_faults_are_found(name: str) -> None:
    """A run of the right trouble finds a fault that was planted, and passes without it."""
    seed, kind = FINDS[name]
    chosen = plan(seed, 0.5, only=kind)

    assert "" != executor.simulate(chosen, ACTS, PLANTED[name]).violation
    assert "" == executor.simulate(chosen, ACTS).violation
