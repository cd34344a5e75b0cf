"""What must hold of an agent's memory: below its limit, and none in use while it is idle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kfetch.agent.budget import Budget
from simulation.kernel import Kernel, Process


class Budgets:
    """The budgets of the agents of one simulation."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._of: dict[Process, Budget] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A context in which each new budget of an agent is noted."""
        create, budgets = Budget.__init__, self

        def noted_create(self: Budget, limit: int) -> None:
            create(self, limit)
            thread = budgets._kernel.current
            if thread is not None and thread.process.name == "agent":
                budgets._of[thread.process] = self

        with patch.object(Budget, "__init__", noted_create):
            yield

    def problems(self) -> list[str]:
        """Returns a line for each budget of a living agent that does not hold while it is idle."""
        found = []
        for agent, budget in self._of.items():
            cached = budget._bytes["cache"]  # records read ahead, which any request may drop
            if agent.alive and budget.used > cached:
                found.append(f"{agent} is idle and uses {budget.used - cached} bytes")
            if budget.peak > budget.limit:
                found.append(f"{agent} has used {budget.peak} bytes, and its limit is lower")
        return found
