"""The parts of a simulation behind one face: source, straight writes, executors, jobs, leases.

Each part draws everything from a seed: its size, and a list of events. ``run`` may leave events
out, and the others stay as they are. So ``smaller`` finds the few that still fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from simulation.events import chosen

if TYPE_CHECKING:
    from simulation.scenario import Scenario

MAX_TRIES = 200
"""``smaller`` gives up after so many runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one simulation ended."""

    part: str
    seed: int
    steps: int
    seconds: float
    """Virtual seconds."""
    events: tuple[int, ...]
    """The numbers of the events that happened."""
    failure: str
    """What did not hold; empty if everything did."""
    story: Sequence[str] = field(repr=False)


Run = Callable[[int, float | None, Sequence[int] | None, str], Result]
"""Seed, minutes, the numbers of the events that happen, a planted fault."""


def run_source(
    seed: int,
    minutes: float | None = None,
    events: Sequence[int] | None = None,
    fault: str = "",
) -> Result:
    """Simulate a query: driver, tasks, Kafka and Spark."""
    from simulation.scenario import scenario

    return run_scenario(scenario(seed, minutes), events, fault)


def run_scenario(drawn: Scenario, events: Sequence[int] | None = None, fault: str = "") -> Result:
    """Simulate a query by a scenario, such as one that was written after a report."""
    from simulation import world
    from simulation.planted import PLANTED

    world.prepare()
    kept = chosen(len(drawn.actions), events)
    drawn = replace(drawn, actions=tuple(drawn.actions[number] for number in kept))
    with PLANTED[fault]() if fault else nullcontext():
        outcome = world.simulate(lambda: world.World(drawn))
    return Result(
        part="source",
        seed=drawn.seed,
        steps=outcome.steps,
        seconds=outcome.seconds,
        events=kept,
        failure=outcome.violation,
        story=[repr(drawn), *outcome.story],
    )


def run_straight(
    seed: int, minutes: float | None = None, events: Sequence[int] | None = None, fault: str = ""
) -> Result:
    """Simulate a query that writes a Delta table straight, or through Spark by turns."""
    from simulation import world
    from simulation.straight.chaos import drawn
    from simulation.straight.planted import PLANTED
    from simulation.straight.world import StraightWorld

    world.prepare()
    scenario, plan = drawn(seed, minutes)
    kept = chosen(len(scenario.actions), events)
    scenario = replace(scenario, actions=tuple(scenario.actions[number] for number in kept))
    with PLANTED[fault]() if fault else nullcontext():
        outcome = world.simulate(lambda: StraightWorld(scenario, plan))
    return Result(
        part="straight",
        seed=seed,
        steps=outcome.steps,
        seconds=outcome.seconds,
        events=kept,
        failure=outcome.violation,
        story=[repr(scenario), repr(plan), *outcome.story],
    )


def run_executor(
    seed: int, minutes: float | None = None, events: Sequence[int] | None = None, fault: str = ""
) -> Result:
    """Simulate the machine of an executor: workers, agents, files and sockets."""
    from simulation.machine import chaos, executor
    from simulation.machine.plan import plan
    from simulation.machine.planted import PLANTED

    executor.prepare()
    drawn = plan(seed, minutes)
    kept = chosen(len(drawn.actions), events)
    drawn = replace(drawn, actions=tuple(drawn.actions[number] for number in kept))
    outcome = executor.simulate(drawn, chaos.ACTS, PLANTED.get(fault))
    return Result(
        part="executor",
        seed=seed,
        steps=outcome.steps,
        seconds=outcome.seconds,
        events=kept,
        failure=outcome.violation,
        story=outcome.story,
    )


def run_jobs(
    seed: int, minutes: float | None = None, events: Sequence[int] | None = None, fault: str = ""
) -> Result:
    """Simulate jobs: the supervisor, moves of offsets, dead letters. It takes no minutes."""
    from simulation import jobs
    from simulation.jobs.planted import BY_KIND

    kind = next((kind for kind, faults in BY_KIND.items() if fault in faults), None)
    with BY_KIND[kind][fault]() if kind else nullcontext():
        outcome = jobs.run(seed, kind=kind, events=events, keep_story=events is not None)
    return _result("jobs", seed, outcome)


def run_leases(
    seed: int, minutes: float | None = None, events: Sequence[int] | None = None, fault: str = ""
) -> Result:
    """Simulate hosts that want to write one checkpoint, and its lease in a store that fails."""
    from simulation import leases
    from simulation.leases.planted import PLANTED

    with PLANTED[fault]() if fault else nullcontext():
        outcome = leases.run(seed, minutes, events)
    return _result("leases", seed, outcome)


def _result(part: str, seed: int, outcome: Any) -> Result:
    return Result(
        part=part,
        seed=seed,
        steps=outcome.steps,
        seconds=outcome.seconds,
        events=outcome.events,
        failure=outcome.failure,
        story=outcome.story,
    )


PARTS: Mapping[str, Run] = {
    "source": run_source,
    "straight": run_straight,
    "executor": run_executor,
    "jobs": run_jobs,
    "leases": run_leases,
}


def smaller(
    failed: Result, run: Callable[[Sequence[int]], Result], tell: Callable[[str], object]
) -> Result:
    """Returns a failure with as few events as still fail.

    ``run`` simulates the same seed with some of its events. Leaves out halves, quarters and so on,
    down to single events, as long as it fails in the same way: the first words are the same.
    """
    best, tries, kind = failed, 0, _kind(failed)
    size = max(1, len(best.events) // 2)
    while size:
        begin = 0
        while begin < len(best.events) and tries < MAX_TRIES:
            fewer = [*best.events[:begin], *best.events[begin + size :]]
            attempt = run(fewer)
            tries += 1
            if attempt.failure and _kind(attempt) == kind:
                best = attempt
                tell(f"{len(best.events)} events still fail")
            else:
                begin += size
        size //= 2
    return run(best.events)


def _kind(failed: Result) -> str:
    """Returns what a failure says before it names anything."""
    return failed.failure.split(":")[0]


def faults() -> dict[str, str]:
    """Returns the faults that can be planted, each with the part that should find it."""
    from simulation import planted
    from simulation.jobs.planted import BY_KIND
    from simulation.leases import planted as of_leases
    from simulation.machine import planted as of_machine
    from simulation.straight import planted as of_straight

    return {
        **dict.fromkeys(planted.PLANTED, "source"),
        **dict.fromkeys(of_straight.PLANTED, "straight"),
        **dict.fromkeys(of_machine.PLANTED, "executor"),
        **dict.fromkeys(of_leases.PLANTED, "leases"),
        **{fault: "jobs" for of_kind in BY_KIND.values() for fault in of_kind},
    }
