"""Which names of columns a plan of Spark refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kfetch_jobs import config
from kfetch_jobs.run.used_columns import references, used_columns
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


_JOB = """\
source:
  cluster: local
  subscribe: clicks
{source}transform:
  sql: {sql}
sink:
  path: ${{storage}}/clicks/table
{letters}trigger: availableNow
"""
_JSON = "  options: {valueFormat: json, valueSchema: id INT}\n"
_KEYS = "  options: {keyFormat: json, keySchema: id INT}\n"
_DECODE = "  decode: {fields: id INT, into: value}\n"
_LETTERS = "  deadLetters: {path: dead}\n"


@pytest.mark.parametrize(
    ("source", "letters", "uses", "columns"),
    [
        ("", "", "value", ["value"]),
        ("", "", "", ["offset"]),
        ("", "", "key value topic partition offset timestamp timestampType", []),
        (_JSON, "", "", ["value"]),
        (_DECODE, "", "", ["value"]),
        *(
            (
                *(source, _LETTERS, ""),
                ["key", "value", "topic", "partition", "offset", "timestamp", "deadLetter"],
            )
            for source in (_JSON, _KEYS, _DECODE)
        ),
    ],
)
def test_used_columns(
    project: Path, source: str, letters: str, uses: str, columns: list[str]
) -> None:
    """The columns of the SQL, and what the job itself needs: a dead letter has key and value."""
    text = _JOB.format(source=source, sql="SELECT 1 AS x FROM source", letters=letters)
    (project / "conf" / "jobs" / "clicks.yml").write_text(text)
    job = config.load(project / "conf" / "kfetch.yml", {"SERVERS": "127.0.0.1:9092"}).job("clicks")
    plan = SimpleNamespace(analyzed=lambda: Operator("Project", [SOURCE], uses=uses))
    result: Any = SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: plan))
    assert columns == used_columns(job, result)
