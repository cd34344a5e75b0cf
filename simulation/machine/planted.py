"""Faults of agents that are planted on purpose, one at a time. The simulation must find each.

A fault is a function of the run. It returns values for variables of the product's modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kfetch.agent import __main__ as agent
from kfetch.agent import launch

if TYPE_CHECKING:
    from simulation.machine.executor import ExecutorRun

Patches = Mapping[tuple[str, str], Any]


def unlink_any_socket(run: ExecutorRun) -> Patches:
    """An agent that leaves removes whatever socket is at its path."""

    def unlink(path: Any, inode: int) -> None:
        path.unlink(missing_ok=True)

    return {("kfetch.agent.__main__", "_unlink"): unlink}


def lock_for_the_start_alone(run: ExecutorRun) -> Patches:
    """An agent gives its lock up once it listens."""
    listening = agent._listening

    def and_unlock(path: Any) -> Any:
        listener = listening(path)
        process = run.machine.current
        process.close(int(process.arguments[process.arguments.index("--lock") + 1]))
        return listener

    return {("kfetch.agent.__main__", "_listening"): and_unlock}


def lock_of_the_worker_alone(run: ExecutorRun) -> Patches:
    """The worker unlocks when it leaves the start, though the agent has inherited the lock."""
    locked = launch._locked

    @contextmanager
    def and_unlock(path: Any) -> Iterator[int | None]:
        with locked(path) as lock:
            yield lock
            if lock is not None:
                run.machine.current.description(lock).unlock()  # type: ignore[attr-defined]

    return {("kfetch.agent.launch", "_locked"): and_unlock}


def socket_is_not_watched(run: ExecutorRun) -> Patches:
    """An agent stays although its socket was removed."""
    return {("kfetch.agent.__main__", "_is_bound"): lambda path, inode: True}


def segments_stay(run: ExecutorRun) -> Patches:
    """A read does not close its segments."""
    return {("kfetch.agent.server", "SegmentPool"): _LeakingPool}


class _LeakingPool:
    def __init__(self, *arguments: Any) -> None:
        from kfetch.agent.segment_pool import SegmentPool

        self._pool = SegmentPool(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def close(self) -> None:
        """Leave all as it is."""
        _leaked.append(self._pool)


_leaked: list[Any] = []

PLANTED: dict[str, Callable[[ExecutorRun], Patches]] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        unlink_any_socket,
        lock_for_the_start_alone,
        lock_of_the_worker_alone,
        socket_is_not_watched,
        segments_stay,
    )
}
