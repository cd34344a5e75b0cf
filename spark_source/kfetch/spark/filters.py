"""The conditions of a query's filters, as far as they can narrow a batch read.

Spark has filters since 4.1, so nothing but a reader that is given filters imports this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import datasource as spark

from kfetch.watch.narrowing import Condition, Operator

_OPERATORS: dict[type[spark.Filter], Operator] = {
    spark.EqualTo: Operator.EQUAL,
    spark.EqualNullSafe: Operator.EQUAL,
    spark.LessThan: Operator.LESS,
    spark.LessThanOrEqual: Operator.LESS_OR_EQUAL,
    spark.GreaterThan: Operator.GREATER,
    spark.GreaterThanOrEqual: Operator.GREATER_OR_EQUAL,
    spark.In: Operator.IN,
    spark.StringStartsWith: Operator.STARTS_WITH,
    spark.StringEndsWith: Operator.ENDS_WITH,
    spark.StringContains: Operator.CONTAINS,
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def conditions(filters: Iterable[spark.Filter]) -> Iterator[Condition]:
    """Yields the conditions of Spark's filters, without those that can't narrow anything."""
    for item in filters:
        negated = isinstance(item, spark.Not)
        inner: Any = item.child if isinstance(item, spark.Not) else item
        operator = _OPERATORS.get(type(inner))
        if operator is not None and len(inner.attribute) == 1:
            yield Condition(inner.attribute[0], operator, _plain(inner.value), negated)


def _plain(value: object) -> object:
    """Returns a literal with microseconds since 1970 for a moment in time."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // _MICROSECOND
    return value
