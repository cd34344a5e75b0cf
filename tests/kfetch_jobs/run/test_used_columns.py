"""Which names of columns a plan of Spark refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from kfetch_jobs.run.used_columns import references
from tests.kfetch_jobs.run.test_stateless import Node, Sequence


@dataclass
class Names:
    """As Spark's AttributeSet is through Py4J."""

    names: str

    def toSeq(self) -> Sequence:
        return Sequence([Attribute(name) for name in self.names.split()])


@dataclass
class Attribute:
    """A column."""

    called: str

    def name(self) -> str:
        return self.called


@dataclass
class Operator(Node):
    """A node of a plan with the columns that its expressions name."""

    uses: str = ""
    gives: str = ""
    called: str = ""
    inputs: list[Any] = field(default_factory=list)

    def references(self) -> Names:
        return Names(self.uses)

    def outputSet(self) -> Names:
        return Names(self.gives)

    def alias(self) -> str:
        return self.called


LEAF = Operator("StreamingRelationV2")
INSIDE = Operator("Project", [LEAF], uses="key value topic")
SOURCE = Operator("SubqueryAlias", [Operator("View", [INSIDE])], called="source")


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        (Operator("Project", [SOURCE], uses="Value", gives="v"), {"value", "v"}),
        (Operator("Filter", [SOURCE], uses="key", gives="key value"), {"key", "value"}),
        (Operator("Project", [INSIDE], gives="key"), {"key", "value", "topic"}),
        (
            Operator("Project", [Operator("SubqueryAlias", [SOURCE], called="a")], uses="a"),
            {"a"},
        ),
        (
            # A table that a WITH clause names source is not the view.
            Operator("SubqueryAlias", [Operator("CTERelationRef", uses="b")], called="source"),
            {"b"},
        ),
        (Operator("Union", [SOURCE, SOURCE]), None),
        (Operator("Project", [Operator("MapInArrow", [SOURCE])]), None),
        (Operator("Filter", [SOURCE], inside=[LEAF]), None),
    ],
)
def test_references(plan: Operator, names: set[str] | None) -> None:
    """Names count above the view. A subquery or an unknown operator leaves them unknown."""
    assert names == references(plan)
