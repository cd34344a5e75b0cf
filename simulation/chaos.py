"""What may happen to the processes of a query, and to the clock.

Each action gets the world and numbers between 0 and 1. It returns a sentence for the story, or an
empty text if there was nothing to act on. ``cluster.chaos`` has the actions on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from simulation.cluster.chaos import Action

if TYPE_CHECKING:
    from simulation.kernel import Process
    from simulation.world import World

Numbers = Sequence[float]
_NUMBERS = 2


def draw(
    chance: Random, weights: Mapping[str, float], per_s: float, seconds: float
) -> list[Action]:
    """Returns actions in order of their times."""
    kinds, at_s = list(weights), 0.0
    actions = []
    while per_s and kinds and (at_s := at_s + chance.expovariate(per_s)) < seconds:
        (kind,) = chance.choices(kinds, list(weights.values()))
        numbers = [round(chance.random(), 4) for _ in range(_NUMBERS)]
        actions.append(Action(round(at_s, 6), kind, {"numbers": numbers}))
    return actions


def pick(processes: Sequence[Process], number: float) -> Process:
    """Returns the process that a number between 0 and 1 chooses. It may be rounded to 1."""
    return processes[min(int(number * len(processes)), len(processes) - 1)]


def kill_driver(world: World, numbers: Numbers) -> str:
    """The driver ends as by kill -9."""
    return _kill(world.query.process)


def kill_worker(world: World, numbers: Numbers) -> str:
    """A Python worker ends as by kill -9."""
    workers = world.workers()
    return _kill(pick(workers, numbers[0])) if workers else ""


def kill_agent(world: World, numbers: Numbers) -> str:
    """The agent ends as by kill -9."""
    agents = world.agents()
    return _kill(pick(agents, numbers[0])) if agents else ""


def _kill(process: Process) -> str:
    if not process.alive:
        return ""
    process.kill()
    return f"{process.name} is killed"


def stop_query(world: World, numbers: Numbers) -> str:
    """Somebody stops the query, and it starts again."""
    world.query.stop()
    return "the query is to stop"


def freeze_worker(world: World, numbers: Numbers) -> str:
    """A worker stands still for a while."""
    workers = world.workers()
    return _freeze(world, pick(workers, numbers[0]), numbers[1] * 60) if workers else ""


def freeze_driver(world: World, numbers: Numbers) -> str:
    """The driver stands still for a while."""
    return _freeze(world, world.query.process, numbers[1] * 60)


def freeze_agent(world: World, numbers: Numbers) -> str:
    """The agent stands still for a while."""
    agents = world.agents()
    return _freeze(world, pick(agents, numbers[0]), numbers[1] * 60) if agents else ""


def _freeze(world: World, process: Process, seconds: float) -> str:
    if not process.alive:
        return ""
    process.freeze()
    world.kernel.after(seconds, process.thaw)
    return f"{process.name} stands still for {seconds:.0f} s"


def step_clock(world: World, numbers: Numbers) -> str:
    """Somebody sets the clock on the wall."""
    step_s = (numbers[0] - 0.5) * 2 * (5 if numbers[1] < 0.5 else 90_000)
    world.kernel.wall_offset += step_s
    return f"the clock is set by {step_s:+.0f} s"


def read_batch(world: World, numbers: Numbers) -> str:
    """Somebody reads the topics once, beside the query."""
    return world.read_batch(Random(numbers[0]))


def _nothing(world: World, numbers: Numbers) -> str:
    return ""


ACTIONS: Mapping[str, Callable[[World, Numbers], str]] = {
    action.__name__: action
    for action in (
        kill_driver,
        kill_worker,
        kill_agent,
        stop_query,
        freeze_worker,
        freeze_driver,
        freeze_agent,
        step_clock,
        read_batch,
    )
} | {"fill_disk": _nothing, "break_files": _nothing}
