"""What a seed draws for straight writes: the table, and trouble of its files and its log."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulation import chaos
from simulation.cluster.chaos import Action
from simulation.scenario import Scenario, scenario

if TYPE_CHECKING:
    from simulation.straight.world import StraightWorld

_MINUTES = 0.5
_KINDS_MAX = (1, 2, 3, 9)
_OFTEN = ("kill_committing_driver", "kill_writing_worker", "trouble_log")
"""What makes micro-batches and tasks come again."""
_PER_S = (0.1, 0.3, 1.0)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What a seed decides on the table and the runs that write it."""

    straight: float
    """The chance that a run writes straight. The others write through Spark."""
    partitioned: bool
    pace_s: float
    """The longest time of a call of the file system."""
    row_group_bytes: int
    file_bytes: int


def drawn(seed: int, minutes: float | None = None) -> tuple[Scenario, TablePlan]:
    """Returns what a seed decides: a scenario with more actions, and the table."""
    draw = random.Random(f"straight {seed}")
    base = scenario(seed, minutes or _MINUTES)
    kinds = [*draw.sample([*ACTIONS], draw.choice(_KINDS_MAX)), draw.choice(_OFTEN)]
    more = chaos.draw(draw, dict.fromkeys(kinds, 1.0), draw.choice(_PER_S), base.minutes * 60)
    actions = sorted((*base.actions, *more), key=lambda action: action.at_s)
    plan = TablePlan(
        straight=draw.choice((1.0, 0.7, 0.7)),
        partitioned=draw.random() < 0.4,
        pace_s=draw.choice((0.01, 0.1, 1.0)),
        row_group_bytes=draw.choice((32 << 20, 2000)),
        file_bytes=draw.choice((128 << 20, 2000)),
    )
    return replace(base, actions=tuple(actions)), plan


def has_trouble(actions: Sequence[Action]) -> bool:
    """Returns whether any action troubles the table."""
    return any(action.kind in ACTIONS for action in actions)


# -- the actions -------------------------------------------------------------------------------


def kill_writing_worker(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """A worker ends as by kill -9, in one of its next calls of the file system."""
    workers = world.workers()
    if not workers:
        return ""
    process = chaos.pick(workers, numbers[0])
    world.disk.calls_left[process] = int(numbers[1] * 20)
    return f"{process.name} has {int(numbers[1] * 20)} calls left"


def kill_committing_driver(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """The driver ends as by kill -9, in one of its next calls for a commit."""
    calls = int(numbers[0] * 40)
    world.disk.calls_left[world.query.process] = calls
    return f"the driver has {calls} calls left"


def fill_disk(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """The disk of the table is full for a while."""
    world.disk.tree.full = True
    world.kernel.after(numbers[0] * 20, world.free_disk)
    return f"the disk of the table is full for {numbers[0] * 20:.0f} s"


def break_write(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """One of the next writes fails, and its file is cut."""
    world.disk.writes_left = int(numbers[0] * 10)
    return f"after {world.disk.writes_left} writes, one fails"


def hide_files(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """For a while the driver does not see the tasks' files."""
    world.disk.blind_until = world.kernel.now + numbers[0] * 5
    return f"the driver sees no file for {numbers[0] * 5:.1f} s"


def trouble_log(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """Commits fail by chance for a while, or nobody hears of them."""
    world.table.troubled_until = world.kernel.now + numbers[0] * 20
    return f"commits fail for {numbers[0] * 20:.0f} s"


def append_more(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """Another writer appends."""
    return world.others.append()


def compact(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """Another writer rewrites all files as one."""
    return world.others.compact()


def add_column(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """Another writer adds a column."""
    return world.others.add_column()


def change_property(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """Another writer changes a property that asks nothing of writers."""
    duration = f"interval {numbers[0] * 10_000:.0f} hours"
    return world.others.change("delta.logRetentionDuration", duration)


def forbid(world: StraightWorld, numbers: chaos.Numbers) -> str:
    """For a while the table has a constraint, which straight writes can't honour."""
    world.kernel.after(numbers[0] * 20, world.others.change, "delta.constraints.one", "")
    return world.others.change("delta.constraints.one", "offset >= 0")


ACTIONS: Mapping[str, Callable[[StraightWorld, chaos.Numbers], str]] = {
    action.__name__: action
    for action in (
        kill_writing_worker,
        kill_committing_driver,
        fill_disk,
        break_write,
        hide_files,
        trouble_log,
        append_more,
        compact,
        add_column,
        change_property,
        forbid,
    )
}
