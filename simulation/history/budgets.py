"""What must hold of an agent's memory: below its limit, and none in use while it is idle.

After each change, the bytes in use are those of the uses together, and none of these is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kfetch.agent.budget import Budget
from simulation.kernel import Kernel, Process

FIRST_SEGMENT_BYTES = 6 << 20
"""A reader's first segment and the batch for it never wait for memory."""


class Budgets:
    """The budgets of the agents of one simulation."""

    def __init__(self, kernel: Kernel, fail: Callable[[str], object]) -> None:
        """``fail`` gets what does not hold after a change."""
        self._kernel = kernel
        self._fail = fail
        self._of: dict[Process, Budget] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A context in which each new budget of an agent is noted, and each change is checked."""
        create, use, budgets = Budget.__init__, Budget._use, self

        def noted_create(self: Budget, limit: int) -> None:
            create(self, limit)
            thread = budgets._kernel.current
            if thread is not None and thread.process.name == "agent":
                budgets._of[thread.process] = self

        def checked_use(self: Budget, of: Any, change: int) -> None:
            use(self, of, change)
            if problem := broken(self):
                budgets._fail(problem)

        with (
            patch.object(Budget, "__init__", noted_create),
            patch.object(Budget, "_use", checked_use),
        ):
            yield

    def problems(self) -> list[str]:
        """Returns a line for each living agent that is idle and uses memory."""
        found = []
        for agent, budget in self._of.items():
            cached = budget._bytes["cache"]  # records read ahead, which any request may drop
            if agent.alive and budget.used > cached:
                found.append(f"{agent} is idle and uses {budget.used - cached} bytes")
        return found


def broken(budget: Budget) -> str:
    """Returns what does not hold of a budget at any time; empty if all does."""
    uses = budget._bytes
    if min(uses.values()) < 0 or sum(uses.values()) != budget.used:
        return f"a budget has {budget.used} bytes in use, and its uses are {uses}"
    if budget.used > budget.limit + (budget.readers + 1) * FIRST_SEGMENT_BYTES:
        return f"a budget of {budget.limit} bytes has {budget.used} in use"
    return ""
