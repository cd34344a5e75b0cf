"""Walks over logical plans of Spark, which Python sees through Py4J."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def nodes(plan: Any, ends_at: Callable[[Any], bool] = lambda _: False) -> Iterator[Any]:
    """Yields the plan's operators, and those of the subqueries in its expressions.

    ``ends_at``: whether to leave out an operator, and everything below it.
    """
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if not ends_at(node):
            yield node
            waiting += [*items(node.children()), *items(node.subqueries())]


def items(sequence: Any) -> list[Any]:
    """Returns the items of a Seq of Scala."""
    return [sequence.apply(index) for index in range(sequence.size())]
