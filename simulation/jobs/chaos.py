"""What goes wrong in a simulation: events that the seed draws before it starts.

Each event has its moment and its arguments. So one that is left out leaves the others as they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_DAY_S = 86_400.0
ORDERS = ("start", "stop", "pause", "resume", "restart")


class Kind(StrEnum):
    """The kinds of events."""

    ORDER = "order"
    """A command gives an order to a job. Perhaps it dies after some calls of the system."""
    CLOCK = "clock"
    """Somebody sets the clock."""
    DISK = "disk"
    """The disk is full for a time."""
    KILL = "kill"
    """The supervisor is killed after some calls of the system."""
    FREEZE = "freeze"
    """The supervisor does nothing for a time, after some calls of the system. A command may give it
    an order right before."""
    END = "end"
    """The supervisor gets SIGTERM, once or twice."""
    DOWN = "down"
    """The command ``kfetch down``."""
    KILL_RUN = "kill run"
    """Somebody kills a run's process."""
    STATUS = "status"
    """The command ``kfetch status``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event."""

    at: float
    """Seconds from the start."""
    kind: Kind
    job: str = ""
    word: str = ""
    """The order."""
    seconds: float = 0.0
    calls: int = -1
    """After how many calls of the system; -1: at once, or never."""

    def __str__(self) -> str:
        words = (self.kind, self.word, self.job, f"{self.seconds:+.1f} s" if self.seconds else "")
        after = f"after {self.calls} calls" if self.calls >= 0 else ""
        return " ".join(filter(None, (*words, after)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How much of each goes wrong."""

    seconds: float
    """How long it lasts."""
    each_s: float
    """The mean pause between two events."""
    weights: dict[Kind, int]
    pace_s: float
    """The pause between two rounds of the supervisor's loop, while nothing happens."""
    life_s: float
    """How long a run typically lives."""


ORDERLY = Profile(
    seconds=1500.0,
    each_s=25.0,
    weights={
        Kind.ORDER: 50,
        Kind.KILL: 12,
        Kind.FREEZE: 14,
        Kind.END: 4,
        Kind.DOWN: 4,
        Kind.DISK: 4,
        Kind.KILL_RUN: 8,
        Kind.STATUS: 6,
        Kind.CLOCK: 0,
    },
    pace_s=1.0,
    life_s=90.0,
)
CLOCKS = Profile(
    seconds=3 * 3600.0,
    each_s=400.0,
    weights={
        Kind.ORDER: 20,
        Kind.KILL: 6,
        Kind.FREEZE: 8,
        Kind.END: 3,
        Kind.DOWN: 1,
        Kind.DISK: 2,
        Kind.KILL_RUN: 6,
        Kind.STATUS: 6,
        Kind.CLOCK: 30,
    },
    pace_s=5.0,
    life_s=600.0,
)
NIGHT = Profile(
    seconds=14 * 3600.0,
    each_s=2.5 * 3600.0,
    weights={
        Kind.ORDER: 20,
        Kind.KILL: 15,
        Kind.FREEZE: 5,
        Kind.END: 5,
        Kind.DOWN: 1,
        Kind.DISK: 1,
        Kind.KILL_RUN: 10,
        Kind.STATUS: 1,
        Kind.CLOCK: 0,
    },
    pace_s=60.0,
    life_s=1800.0,
)
PROFILES = (ORDERLY, CLOCKS, NIGHT)


def draw_events(draw: random.Random, profile: Profile, jobs: Sequence[str]) -> list[Event]:
    """Returns the events of a simulation, in their order."""
    events = []
    at = draw.expovariate(1 / profile.each_s)
    kinds, weights = [*profile.weights], [*profile.weights.values()]
    while at < profile.seconds:
        (kind,) = draw.choices(kinds, weights)
        events.append(_draw_event(draw, at, kind, jobs))
        at += draw.expovariate(1 / profile.each_s)
    return events


def _draw_event(draw: random.Random, at: float, kind: Kind, jobs: Sequence[str]) -> Event:
    job = draw.choice(jobs)
    word = draw.choice(ORDERS)
    calls = draw.randrange(60)
    dies = draw.random() < 0.25
    seconds = draw.expovariate(1 / 40)
    step = draw.choice([5.0, 30.0, 600.0, 3600.0, 4 * 3600.0, _DAY_S, 7 * _DAY_S])
    step *= draw.choice([-1, 1]) * draw.uniform(0.8, 1.2)
    arguments: dict[Kind, Callable[[], Event]] = {
        Kind.ORDER: lambda: Event(
            at=at, kind=kind, job=job, word=word, calls=calls if dies else -1
        ),
        Kind.CLOCK: lambda: Event(at=at, kind=kind, seconds=step),
        Kind.DISK: lambda: Event(at=at, kind=kind, seconds=seconds),
        Kind.KILL: lambda: Event(at=at, kind=kind, calls=calls),
        Kind.FREEZE: lambda: Event(
            at=at, kind=kind, job=job, word="" if dies else word, seconds=seconds, calls=calls
        ),
        Kind.END: lambda: Event(at=at, kind=kind, calls=1 if dies else 0),
        Kind.DOWN: lambda: Event(at=at, kind=kind, calls=calls if dies else -1, word=word),
        Kind.KILL_RUN: lambda: Event(at=at, kind=kind, job=job),
        Kind.STATUS: lambda: Event(at=at, kind=kind),
    }
    return arguments[kind]()
