"""What a seed decides about a machine before a run starts: its size, its speed and its troubles."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

NUMBERS = 4


class Action(NamedTuple):
    """Something that happens. Its numbers between 0 and 1 say to whom, and how."""

    at_s: float
    kind: str
    numbers: tuple[float, ...]


@dataclass(frozen=True)
class Plan:
    """A run on one machine."""

    seed: int
    minutes: float
    executors: int
    slots: int
    preempt: float
    slow_chance: float
    slow_s: float
    pause_s: float
    """How long a worker waits between two splits, at most."""
    batch_s: float
    """How long a worker takes for a batch, at most."""
    split_records: int
    record_bytes: int
    logs: bool
    reuses_pids: bool
    """Whether new processes get the pids of ended ones."""
    options: tuple[tuple[str, str], ...]
    actions: tuple[Action, ...]

    @property
    def mild(self) -> bool:
        """Whether reads outlast whatever happens."""
        return MILD.issuperset(action.kind for action in self.actions)


WEIGHTS: Mapping[str, float] = {
    "kill_agent": 3,
    "kill_worker": 3,
    "kill_jvm": 1,
    "kill_at_call": 6,
    "freeze_at_call": 6,
    "freeze_agent": 2,
    "freeze_worker": 2,
    "ask_to_leave": 1,
    "fill_disk": 2,
    "few_descriptors": 2,
    "no_threads": 1,
    "no_processes": 1,
    "remove_socket": 3,
    "remove_lock": 1,
    "clean_files": 2,
    "clean_while_stopped": 2,
    "step_clock": 1,
    "slow_start": 1,
    "hang_broker": 1,
    "elect": 1,
    "ask_status": 1,
    "kill_pair": 1,
}


MILD = frozenset(
    {
        *("kill_agent", "kill_worker", "kill_jvm", "ask_to_leave", "step_clock"),
        *("remove_socket", "remove_lock", "clean_files"),
    }
)
"""After these a read may lose an agent, and nothing else: it goes on with the next one."""


def plan(seed: int, minutes: float | None = None, only: str = "") -> Plan:
    """Returns the plan of a seed. ``only``: the one kind of trouble that happens."""
    chance = random.Random(seed)
    drawn = chance.choice((0.5, 1.0, 2.0))
    minutes = minutes or drawn
    rate = chance.choice((2.0, 6.0, 15.0, 30.0))
    # One run has a few kinds of trouble, so that each run differs from the others.
    kinds = chance.sample(sorted(WEIGHTS), chance.choice((2, 3, 6, len(WEIGHTS))))
    if chance.random() < 0.3:
        kinds = chance.sample(sorted(MILD), 3)
    kinds = [only] if only else kinds
    weights = [WEIGHTS[kind] for kind in kinds]
    return Plan(
        seed=seed,
        minutes=minutes,
        executors=chance.choice((1, 1, 2)),
        slots=chance.choice((1, 2, 3)),
        preempt=chance.choice((0.0, 0.02, 0.2)),
        slow_chance=chance.choice((0.0, 0.05, 0.3)),
        slow_s=chance.choice((0.001, 0.05, 1.0)),
        pause_s=chance.choice((2.0, 8.0, 60.0)),
        batch_s=chance.choice((0.0, 0.1, 15.0)),
        split_records=chance.choice((10, 100)),
        record_bytes=chance.choice((10, 10, 20_000)),
        logs=True,
        reuses_pids=chance.random() < 0.5,
        options=(
            ("kfetch.agent.lease", chance.choice(("1s", "30s", "120s"))),
            ("kafka.max.partition.fetch.bytes", chance.choice(("1", "1048576"))),
            ("kfetch.agent.memory", chance.choice(("64m", "64m", "4m"))),
            ("kfetch.statsDirectory", chance.choice(("", "/tmp/stats"))),
        ),
        actions=tuple(
            Action(
                round(at_s, 3),
                chance.choices(kinds, weights)[0],
                tuple(round(chance.random(), 4) for _ in range(NUMBERS)),
            )
            for at_s in sorted(
                chance.uniform(0.0, minutes * 60) for _ in range(round(rate * minutes))
            )
        ),
    )
