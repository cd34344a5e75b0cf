"""What a seed draws: the hosts, and the trouble of them and of the store."""

from __future__ import annotations

import random
from dataclasses import dataclass

QUIET_S = 240.0
"""Virtual seconds without trouble at the end: a lease, its margin, and some restarts."""
_MINUTES = 15.0
_KINDS = ("freeze", "pause", "kill", "cut", "store")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a host, or to the store for all of them."""

    at: float
    kind: str
    """freeze: SIGSTOP of the run. pause: the whole machine stands still, with its clock. kill:
    kill -9. cut: the host can't reach the store. store: requests of all hosts fail by chance."""
    host: int
    seconds: float


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A host's clock and system."""

    rate: float
    """Its clock's seconds for a real one."""
    offset: float
    has_kernel_timer: bool
    """Whether the kernel ends a process that is stopped. Else a thread does, once it runs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a seed decides on before the run."""

    seed: int
    seconds: float
    hosts: tuple[HostPlan, ...]
    events: tuple[Event, ...]


def drawn(seed: int, minutes: float | None = None) -> Plan:
    """Returns the plan of a seed. A swarm: most seeds have only a few kinds of events."""
    draw = random.Random(f"leases {seed}")
    seconds = 60 * (minutes or _MINUTES)
    hosts = tuple(
        HostPlan(
            rate=draw.uniform(0.98, 1.02),
            offset=draw.uniform(0, 1e6),
            has_kernel_timer=draw.random() < 0.7,
        )
        for _ in range(draw.randint(2, 4))
    )
    kinds = draw.sample(_KINDS, draw.randint(1, len(_KINDS)))
    events = [
        _event(draw, draw.choice(kinds), len(hosts), seconds) for _ in range(draw.randint(3, 40))
    ]
    return Plan(seed, seconds, hosts, tuple(sorted(events, key=lambda event: event.at)))


def _event(draw: random.Random, kind: str, hosts: int, seconds: float) -> Event:
    lasts_s = draw.choice((0.5, 5.0, 15.0, 30.0, 45.0, 120.0)) * draw.uniform(0.7, 1.3)
    return Event(draw.uniform(0, seconds), kind, draw.randrange(hosts), lasts_s)
