"""Finds the columns of the source that a job's SQL uses, so that kfetch delivers only these.

Spark's analysed plan names every column that the SQL refers to. Anything that this module does not
know for certain keeps all columns: functions of the project, subqueries, unknown operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kfetch.admin.query import SourceOptions
from kfetch_jobs.config import Job
from kfetch_jobs.run.stateless import items, nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = ("topic", "partition", "offset", "timestamp")
_KNOWN = frozenset(
    (
        *("Project", "Filter", "Aggregate", "Join", "Sort", "Distinct", "Generate", "Window"),
        *("GlobalLimit", "LocalLimit", "SubqueryAlias", "View"),
        *("WithCTE", "CTERelationDef", "CTERelationRef"),
    )
)
"""Operators that use the columns which their expressions name, and no others."""


def used_columns(job: Job, result: DataFrame) -> list[str]:
    """Returns the columns that the job needs of its source; empty if it needs all of them.

    ``result``: what its SQL makes of all columns.
    """
    if job.file.source is None or job.file.transform is None or job.file.transform.sql is None:
        return []
    options = job.parsed_options()
    names = None if options.columns else references(result._jdf.queryExecution().analyzed())
    if names is None:
        return []
    needed = names | _always(job, options)
    columns = [column.name for column in options.delivered]
    used = [name for name in columns if name.lower() in needed]
    return [] if used == columns else used or ["offset"]


def _always(job: Job, options: SourceOptions) -> set[str]:
    """Returns the columns that the job needs whatever its SQL says, in lower case."""
    names = {"deadletter", *options.string_columns, *(one.column for one in options.typed_columns)}
    if job.dead_letters is not None:
        names.update((*_PLACE, "key", "value"))  # a dead letter has the bytes that are read
    return names


def references(plan: Any) -> set[str] | None:
    """Returns all names of columns in a plan above the view ``source``, in lower case.

    Returns None for a plan with subqueries or with an unknown operator.
    """
    names = set(_names(plan.outputSet()))
    for node in nodes(plan, ends_at=is_source):
        is_known = node.nodeName() in _KNOWN or not node.children().size()
        if not is_known or node.subqueries().size():
            return None
        names.update(_names(node.references()))
    return names


def is_source(node: Any, view: str = "source") -> bool:
    """Returns whether an operator of a plan is a view of the job's source, and nothing above it."""
    if node.nodeName() != "SubqueryAlias" or node.alias() != view:
        return False
    return [child.nodeName() for child in items(node.children())] == ["View"]


def _names(attributes: Any) -> Iterator[str]:
    for attribute in items(attributes.toSeq()):
        yield str(attribute.name()).lower()
