"""Narrows the ranges of a batch read by the filters of its query. Pure.

Spark applies every filter again to the rows. So a range may keep too much, but must never lose a
row that a filter accepts. A condition that this module does not understand narrows nothing.

Times. ListOffsets returns the first offset whose record is as young as a given time. All records
before it are older, in any order of timestamps. So a lower bound always narrows the start. An upper
bound narrows the end only if later records are never older, as with LogAppendTime.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, member
from typing import Any

from kfetch.model import TopicPartition

CLOCK_SKEW_MS = 1000
"""With LogAppendTime a new leader's clock may be this much behind its predecessor's."""

OFFSET_END = 1 << 63
"""The end of all offsets, exclusive."""


def _is_in(cell: Any, values: Any) -> bool:
    return cell in values


class Operator(Enum):
    """How a condition compares a column with its value: a function of both."""

    EQUAL = member(operator.eq)
    LESS = member(operator.lt)
    LESS_OR_EQUAL = member(operator.le)
    GREATER = member(operator.gt)
    GREATER_OR_EQUAL = member(operator.ge)
    IN = member(_is_in)
    STARTS_WITH = member(str.startswith)
    ENDS_WITH = member(str.endswith)
    CONTAINS = member(operator.contains)


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter on one column. All conditions of a query hold for each of its rows."""

    column: str
    """``topic``, ``partition``, ``offset`` or ``timestamp``. Others narrow nothing."""
    operator: Operator
    value: Any
    """A text, a whole number or, for ``in``, a tuple. A timestamp is in microseconds since 1970."""
    negated: bool = False
    """Whether the filter is the opposite. Only topics and partitions are narrowed by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBounds:
    """The record timestamps that the conditions accept, in milliseconds since 1970."""

    since_ms: int | None = None
    """The lowest timestamp, None if any is accepted. Never negative, because ListOffsets gives
    negative times another meaning."""
    before_ms: int | None = None
    """All accepted timestamps are lower; None if any is accepted. Never negative."""


_ORDER = {Operator.LESS, Operator.LESS_OR_EQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL}
_OF_TEXT = frozenset(Operator) - _ORDER
_OF_NUMBERS = frozenset(Operator) - {Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS}


def narrow(
    ranges: Mapping[TopicPartition, tuple[int, int]],
    conditions: Sequence[Condition],
    *,
    first_since: Mapping[TopicPartition, int | None] | None = None,
    first_after: Mapping[TopicPartition, int | None] | None = None,
) -> dict[TopicPartition, tuple[int, int]]:
    """Returns the non-empty ranges (start, end) that may have rows for which all conditions hold.

    ``first_since``: each partition's first offset at ``TimeBounds.since_ms`` or later, None if the
    log has no such record. ``first_after``: the same for the end of the accepted time, only of
    partitions whose later records are never older. Partitions that are not named keep their bounds.
    """
    low, high = _offset_bounds(conditions)
    narrowed = {}
    for tp, (first, last) in ranges.items():
        start, end = max(first, low), min(last, high)
        since = (first_since or {}).get(tp, start)
        after = (first_after or {}).get(tp)
        start = end if since is None else max(start, since)
        end = end if after is None else min(end, after)
        if start < end and _accepts(conditions, tp):
            narrowed[tp] = start, end
    return narrowed


def time_bounds(conditions: Iterable[Condition]) -> TimeBounds:
    """Returns the timestamps that the conditions accept.

    Spark's timestamps have microseconds, and Kafka's have milliseconds.
    """
    lows, highs = [], []
    for low, high in _intervals(conditions, "timestamp"):  # microseconds, both inclusive
        lows += [] if low is None else [-(-low // 1000)]
        highs += [] if high is None else [high // 1000]
    since, before = max(lows, default=-1), min(highs, default=-1) + 1
    return TimeBounds(
        since_ms=since if since >= 0 else None, before_ms=before if highs and before >= 0 else None
    )


def _accepts(conditions: Iterable[Condition], tp: TopicPartition) -> bool:
    cells = {"topic": (tp.topic, str, _OF_TEXT), "partition": (tp.partition, int, _OF_NUMBERS)}
    for condition in conditions:
        if condition.column not in cells:
            continue
        cell, kind, operators = cells[condition.column]
        if condition.operator not in operators or not _is_value(condition, kind):
            continue
        if condition.operator.value(cell, condition.value) is condition.negated:
            return False
    return True


def _offset_bounds(conditions: Iterable[Condition]) -> tuple[int, int]:
    """Returns the first offset that the conditions accept, and the end, exclusive."""
    start, end = 0, OFFSET_END
    for low, high in _intervals(conditions, "offset"):
        start = start if low is None else max(start, low)
        end = end if high is None else min(end, high + 1)
    return start, end


def _intervals(
    conditions: Iterable[Condition], column: str
) -> Iterable[tuple[int | None, int | None]]:
    """Yields the lowest and the highest number that each condition on a column accepts."""
    for condition in conditions:
        value = condition.value
        if condition.column != column or condition.negated or not _is_value(condition, int):
            continue
        match condition.operator:
            case Operator.EQUAL:
                yield value, value
            case Operator.LESS:
                yield None, value - 1
            case Operator.LESS_OR_EQUAL:
                yield None, value
            case Operator.GREATER:
                yield value + 1, None
            case Operator.GREATER_OR_EQUAL:
                yield value, None
            case Operator.IN:
                yield min(value, default=1), max(value, default=0)


def _is_value(condition: Condition, kind: type) -> bool:
    """Returns whether the value has the column's type; a null or another type narrows nothing."""
    values = condition.value if condition.operator is Operator.IN else [condition.value]
    return isinstance(values, list | tuple) and all(type(value) is kind for value in values)
