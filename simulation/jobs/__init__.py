"""Simulations of jobs: one seed decides on everything that happens, and each seed replays exactly.

supervision.py  the supervisor with its runs, orders, cron times, and all that goes wrong
judge.py        what must hold there, told by other means than the product's
moves.py        resets, replays and undos of a job's offsets, and runs between them, on two hosts
letters.py      dead letters beside rows: the commits of a micro-batch

    outcome = run(17)                      one simulation
    outcome = run(17, events=[0, 3])       the same one with two of its events

machine.py has processes, and system.py the stand-ins of the system's modules. leases.py has two
hosts, and the leases that their processes hold.
runs.py, tables.py and project.py stand in for runs, Delta and a project. cron.py computes cron
times in another way. planted.py has faults that the simulations must find.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from simulation.events import chosen
from simulation.jobs.machine import Failure, Machine

__all__ = ["KINDS", "Outcome", "run"]

KINDS = ("supervision", "moves", "letters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a simulation ended."""

    seed: int
    kind: str
    steps: int
    """How often the kernel dispatched an event, or could have stopped a process."""
    seconds: float
    """Virtual seconds."""
    events: tuple[int, ...]
    """The numbers of the events that happened."""
    failure: str
    """Which invariant did not hold; empty if all did."""
    story: list[str] = field(repr=False)


def kind_of(seed: int) -> str:
    """Returns which kind of simulation a seed decides on."""
    return random.Random(f"kind {seed}").choice(KINDS)


def run(
    seed: int,
    *,
    kind: str | None = None,
    events: Sequence[int] | None = None,
    keep_story: bool = False,
) -> Outcome:
    """Simulate, and return the outcome. ``events``: the numbers of those that happen."""
    kind = kind or kind_of(seed)
    simulation = _simulation(kind, seed, keep_story=keep_story)
    numbers = chosen(len(simulation.events), events)
    simulation.events = [simulation.events[number] for number in numbers]
    failure = ""
    try:
        simulation.run()
    except Failure as found:
        failure = str(found)
    machine: Machine = simulation.machine
    outcome = Outcome(
        seed=seed,
        kind=kind,
        steps=machine.steps,
        seconds=machine.now,
        events=numbers,
        failure=failure,
        story=_lines(machine, str(getattr(simulation, "room", ""))),
    )
    del simulation
    return outcome


def _simulation(kind: str, seed: int, *, keep_story: bool) -> Any:
    if kind == "supervision":
        from simulation.jobs.supervision import Supervision

        return Supervision(seed, keep_story=keep_story)
    if kind == "moves":
        from simulation.jobs.moves import MovesSimulation

        return MovesSimulation(seed, keep_story=keep_story)
    from simulation.jobs.letters import LettersSimulation

    return LettersSimulation(seed, keep_story=keep_story)


def _lines(machine: Machine, room: str) -> list[str]:
    lines = []
    for at, wall, who, what in machine.story:
        clock = datetime.fromtimestamp(wall, UTC).strftime("%m-%d %H:%M:%S")
        text = what.replace(room, "ROOM") if room else what
        lines.append(f"{at:12.3f}  {clock}  {who}: {text}")
    return lines
