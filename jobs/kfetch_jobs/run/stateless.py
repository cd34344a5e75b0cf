"""Finds the operator of a streaming plan that needs more than one micro-batch.

With dead letters, the transform sees each micro-batch as a table of its own. An aggregate would
then count each micro-batch for itself, in silence. A join of the stream with a static table gives
the same rows either way, if the join keeps no row of the static side that has no partner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_STATEFUL = re.compile(
    r"Aggregate|Deduplicate\w*|EventTimeWatermark|GlobalLimit|Offset|Tail|Distinct"
    r"|(Except|Intersect)(All)?|FlatMapGroups\w*|FlatMapCoGroups\w*|CoGroup|TransformWithState\w*"
    r"|Window|AsOfJoin"
)
"""Names of operators in a logical plan that look at several rows of their input."""

_STREAM_SIDE = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (0,),
    "LeftSemi": (0,),
    "LeftAnti": (0,),
    "RightOuter": (1,),
}
"""The input that may be the stream, by the type of the join: 0 is the left one."""


def stateful_operator(plan: Any) -> str:
    """Returns the name of a stateful operator in a logical plan of Spark; empty without one."""
    for node in nodes(plan):
        name = str(node.nodeName())
        if any(one.isStreaming() for one in items(node.subqueries())):
            return "Subquery of a stream"  # it would see the rows of one micro-batch
        if not node.isStreaming():
            continue  # a static table may be aggregated before its join
        if name == "Join":
            if not _is_static_join(node):
                return f"{name}, {node.joinType().toString()}"
        elif _STATEFUL.fullmatch(name):
            return name
    return ""


def stream_leaves(plan: Any) -> int:
    """Returns how often a plan of one stream reads it."""
    leaves = (node for node in nodes(plan) if not node.children().size())
    return sum(1 for leaf in leaves if leaf.isStreaming())


def _is_static_join(join: Any) -> bool:
    streams = [side for side, one in enumerate(items(join.children())) if one.isStreaming()]
    sides = _STREAM_SIDE.get(str(join.joinType().toString()), ())
    return len(streams) == 1 and streams[0] in sides


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
