"""Which plans fit beside dead letters, where the transform sees one micro-batch at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kfetch_jobs.run.stateless import stateful_operator, stream_leaves


class Sequence:
    """As Scala's Seq is through Py4J."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def size(self) -> int:
        return len(self._items)

    def apply(self, index: int) -> Any:
        return self._items[index]


@dataclass
class Node:
    """A node of Spark's logical plan."""

    name: str
    inputs: list[Node] = field(default_factory=list)
    how: str = ""
    inside: list[Node] = field(default_factory=list)

    def nodeName(self) -> str:
        return self.name

    def isStreaming(self) -> bool:
        return self.name == "Stream" or any(one.isStreaming() for one in self.inputs)

    def children(self) -> Sequence:
        return Sequence(self.inputs)

    def subqueries(self) -> Sequence:
        return Sequence(self.inside)

    def joinType(self) -> Node:
        return self

    def toString(self) -> str:
        return self.how


STREAM, STATIC = Node("Stream"), Node("Relation")


def join(left: Node, right: Node, how: str) -> Node:
    """A projection over a join."""
    return Node("Project", [Node("Join", [left, right], how)])


@pytest.mark.parametrize(
    "plan",
    [
        Node("Project", [Node("Filter", [STREAM])]),
        join(STREAM, STATIC, "Inner"),
        join(STATIC, STREAM, "Inner"),
        join(STREAM, STATIC, "Cross"),
        join(STREAM, STATIC, "LeftOuter"),
        join(STATIC, STREAM, "RightOuter"),
        join(STREAM, STATIC, "LeftSemi"),
        join(STREAM, STATIC, "LeftAnti"),
        join(STREAM, Node("Aggregate", [Node("Window", [STATIC])]), "Inner"),
        join(STREAM, join(STATIC, STATIC, "FullOuter"), "LeftOuter"),
        Node("Filter", [STREAM], inside=[Node("Aggregate", [STATIC])]),
        Node("LateralJoin", [STREAM], "LeftOuter", inside=[Node("Aggregate", [STATIC])]),
        Node("Union", [STREAM, STREAM]),
    ],
)
def test_plans_that_fit(plan: Node) -> None:
    """A row of the stream gives the same rows whatever else its micro-batch has."""
    assert "" == stateful_operator(plan)


@pytest.mark.parametrize(
    ("plan", "operator"),
    [
        (join(STREAM, STREAM, "Inner"), "Join, Inner"),
        (join(STREAM, STATIC, "RightOuter"), "Join, RightOuter"),
        (join(STATIC, STREAM, "LeftOuter"), "Join, LeftOuter"),
        (join(STATIC, STREAM, "LeftAnti"), "Join, LeftAnti"),
        (join(STREAM, STATIC, "FullOuter"), "Join, FullOuter"),
        (join(Node("Aggregate", [STREAM]), STATIC, "Inner"), "Aggregate"),
        (Node("Filter", [STREAM], inside=[Node("Aggregate", [STREAM])]), "Subquery of a stream"),
        (Node("Filter", [STATIC], inside=[STREAM]), "Subquery of a stream"),
        (Node("LateralJoin", [STATIC], "Inner", inside=[STREAM]), "Subquery of a stream"),
        (Node("GlobalLimit", [Node("LocalLimit", [STREAM])]), "GlobalLimit"),
        (Node("DeduplicateWithinWatermark", [STREAM]), "DeduplicateWithinWatermark"),
        (Node("Except", [STREAM, STATIC]), "Except"),
        (Node("ExceptAll", [STREAM, STATIC]), "ExceptAll"),
        (Node("IntersectAll", [STATIC, STREAM]), "IntersectAll"),
        (Node("Window", [STREAM]), "Window"),
        (Node("FlatMapCoGroupsInPandas", [STREAM, STATIC]), "FlatMapCoGroupsInPandas"),
    ],
)
def test_plans_that_need_more(plan: Node, operator: str) -> None:
    """The operator is named: over one micro-batch at a time its result would be another."""
    assert operator == stateful_operator(plan)


@pytest.mark.parametrize(
    ("plan", "reads"),
    [
        (STREAM, 1),
        (join(STREAM, STATIC, "Inner"), 1),
        (Node("Union", [Node("Aggregate", [STREAM]), Node("Filter", [STREAM])]), 2),
        (Node("Filter", [join(STREAM, STREAM, "Inner")], inside=[STREAM]), 3),
    ],
)
def test_reads_of_a_stream(plan: Node, reads: int) -> None:
    """Spark counts a record as often as the plan reads it. Static tables don't count."""
    assert reads == stream_leaves(plan)
