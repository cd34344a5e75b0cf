"""Simulates hosts that run one job on a checkpoint in a store: who may write, and who must not.

hosts.py    the hosts, their clocks and pauses; the real ``lease_holder`` runs on them
clocks.py   clocks of hosts, and what ends a process with its lease
store.py    the store, which fails, loses answers, and carries out what a caller has given up
chaos.py    what a seed draws
planted.py  faults that it must find

What must hold: no two hosts hold the lease at once. A lease is not renewed after its end. A host
commits only if it has looked at the lease for this micro-batch, and still held it. After all
trouble, somebody commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simulation.events import chosen
from simulation.leases.chaos import QUIET_S, drawn
from simulation.leases.hosts import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one simulation ended."""

    events: tuple[int, ...]
    steps: int
    seconds: float
    failure: str
    commits: int
    """How many micro-batches were committed."""
    story: Sequence[str] = field(repr=False, default=())


def run(seed: int, minutes: float | None = None, events: Sequence[int] | None = None) -> Outcome:
    """Simulate some hosts for some virtual minutes, and a few quiet ones behind them."""
    plan = drawn(seed, minutes)
    kept = chosen(len(plan.events), events)
    world = World(plan)
    failure = world.run([plan.events[number] for number in kept], plan.seconds + QUIET_S)
    return Outcome(
        events=kept,
        steps=world.kernel.steps,
        seconds=plan.seconds + QUIET_S,
        failure=failure,
        commits=len(world.store.committed),
        story=world.story,
    )
