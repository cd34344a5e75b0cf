"""Ranges narrowed by filters: no row that the filters accept is ever left out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.model import TopicPartition
from kfetch.watch.narrowing import (
    CLOCK_SKEW_MS,
    Condition,
    Operator,
    TimeBounds,
    narrow,
    time_bounds,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
RANGES = {T0: (0, 100), T1: (50, 60), U0: (10, 20)}

EQUAL, IN = Operator.EQUAL, Operator.IN
LESS, AT_MOST = Operator.LESS, Operator.LESS_OR_EQUAL
MORE, AT_LEAST = Operator.GREATER, Operator.GREATER_OR_EQUAL


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], RANGES),
        ([Condition("topic", EQUAL, "u")], {U0: (10, 20)}),
        ([Condition("topic", EQUAL, "u", negated=True)], {T0: (0, 100), T1: (50, 60)}),
        ([Condition("topic", IN, ("u", "x"))], {U0: (10, 20)}),
        ([Condition("topic", Operator.STARTS_WITH, "t")], {T0: (0, 100), T1: (50, 60)}),
        ([Condition("topic", Operator.ENDS_WITH, "x")], {}),
        ([Condition("topic", Operator.CONTAINS, "")], RANGES),
        ([Condition("partition", AT_LEAST, 1)], {T1: (50, 60)}),
        ([Condition("partition", EQUAL, 0, negated=True)], {T1: (50, 60)}),
        ([Condition("partition", IN, ())], {}),
        ([Condition("offset", EQUAL, 55)], {T0: (55, 56), T1: (55, 56)}),
        ([Condition("offset", MORE, 15)], {T0: (16, 100), T1: (50, 60), U0: (16, 20)}),
        ([Condition("offset", AT_MOST, 10)], {T0: (0, 11), U0: (10, 11)}),
        ([Condition("offset", LESS, 10)], {T0: (0, 10)}),
        ([Condition("offset", IN, (12, 14))], {T0: (12, 15), U0: (12, 15)}),
        ([Condition("offset", AT_LEAST, 5), Condition("offset", LESS, 7)], {T0: (5, 7)}),
        # Nothing is known of these, so nothing is left out.
        ([Condition("offset", EQUAL, 55, negated=True)], RANGES),
        ([Condition("offset", EQUAL, None)], RANGES),
        ([Condition("offset", EQUAL, 5.0)], RANGES),
        ([Condition("offset", IN, (5, None))], RANGES),
        ([Condition("partition", Operator.STARTS_WITH, "0")], RANGES),
        ([Condition("topic", LESS, "u")], RANGES),
        ([Condition("topic", EQUAL, 1)], RANGES),
        ([Condition("value", EQUAL, b"x")], RANGES),
        ([Condition("timestamp", EQUAL, 0)], RANGES),
    ],
)
def test_topics_partitions_and_offsets(
    conditions: list[Condition], expected: Mapping[TopicPartition, tuple[int, int]]
) -> None:
    """Conditions on topic, partition and offset narrow the ranges; other conditions don't."""
    assert expected == narrow(RANGES, conditions)


@pytest.mark.parametrize(
    ("first_since", "first_after", "expected"),
    [
        ({}, {}, RANGES),
        ({T0: 70, T1: None, U0: 5}, {}, {T0: (70, 100), U0: (10, 20)}),
        ({T0: 100}, {}, {T1: (50, 60), U0: (10, 20)}),
        ({}, {T0: 30, T1: None, U0: 50}, {T0: (0, 30), T1: (50, 60), U0: (10, 20)}),
        ({T0: 30}, {T0: 30}, {T1: (50, 60), U0: (10, 20)}),
    ],
)
def test_offsets_at_times(
    first_since: dict[TopicPartition, int | None],
    first_after: dict[TopicPartition, int | None],
    expected: Mapping[TopicPartition, tuple[int, int]],
) -> None:
    """A partition without a record that is young enough is empty; one that is not named stays."""
    assert expected == narrow(RANGES, [], first_since=first_since, first_after=first_after)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], TimeBounds()),
        ([Condition("timestamp", AT_LEAST, 1500)], TimeBounds(since_ms=2)),
        ([Condition("timestamp", AT_LEAST, 2000)], TimeBounds(since_ms=2)),
        ([Condition("timestamp", MORE, 2000)], TimeBounds(since_ms=3)),
        ([Condition("timestamp", LESS, 2000)], TimeBounds(before_ms=2)),
        ([Condition("timestamp", AT_MOST, 2000)], TimeBounds(before_ms=3)),
        ([Condition("timestamp", LESS, 2001)], TimeBounds(before_ms=3)),
        ([Condition("timestamp", EQUAL, 2000)], TimeBounds(since_ms=2, before_ms=3)),
        ([Condition("timestamp", EQUAL, 1500)], TimeBounds(since_ms=2, before_ms=2)),
        ([Condition("timestamp", IN, (9000, 4000))], TimeBounds(since_ms=4, before_ms=10)),
        (
            [Condition("timestamp", MORE, 1), Condition("timestamp", MORE, 9000)],
            TimeBounds(since_ms=10),
        ),
        # ListOffsets gives negative times another meaning. -1 is a record without a time.
        ([Condition("timestamp", AT_LEAST, -5000)], TimeBounds()),
        ([Condition("timestamp", LESS, -5000)], TimeBounds()),
        ([Condition("timestamp", AT_LEAST, 0)], TimeBounds(since_ms=0)),
        ([Condition("timestamp", AT_LEAST, 2000, negated=True)], TimeBounds()),
        ([Condition("timestamp", AT_LEAST, None)], TimeBounds()),
        ([Condition("offset", AT_LEAST, 2000)], TimeBounds()),
    ],
)
def test_time_bounds(conditions: list[Condition], expected: TimeBounds) -> None:
    """Microseconds become the milliseconds that no accepted record lies outside of."""
    assert expected == time_bounds(conditions)


COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    EQUAL: operator.eq,
    LESS: operator.lt,
    AT_MOST: operator.le,
    MORE: operator.gt,
    AT_LEAST: operator.ge,
    IN: lambda cell, values: cell in values,
}

micros = st.integers(-3_000, 12_000)
offsets = st.integers(-2, 14)


def on(column: str, numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Condition]:
    """Conditions on a column of numbers."""
    compared = st.builds(
        Condition,
        st.just(column),
        st.sampled_from([EQUAL, LESS, AT_MOST, MORE, AT_LEAST]),
        numbers,
        st.booleans(),
    )
    several = st.lists(numbers, max_size=3).map(tuple)
    return compared | st.builds(Condition, st.just(column), st.just(IN), several, st.booleans())


filters = st.lists(
    on("timestamp", micros) | on("offset", offsets) | on("partition", st.integers(0, 2)), max_size=3
)


def accepted(conditions: Sequence[Condition], tp: TopicPartition, offset: int, ms: int) -> bool:
    """Returns what Spark's own filter says of a row."""
    row = {"partition": tp.partition, "offset": offset, "timestamp": ms * 1000}
    return all(COMPARE[c.operator](row[c.column], c.value) is not c.negated for c in conditions)


def first(times: Sequence[int], least_ms: int) -> int | None:
    """Returns what ListOffsets finds: the first offset with a time of at least ``least_ms``."""
    return next((offset for offset, ms in enumerate(times) if ms >= least_ms), None)


@given(filters, st.lists(st.integers(-1, 10), max_size=12))
def test_no_row_goes_missing_with_shuffled_timestamps(
    conditions: list[Condition], times: list[int]
) -> None:
    """With CreateTime in any order, every row that the filters accept is in the range."""
    bounds = time_bounds(conditions)
    since = {} if bounds.since_ms is None else {T1: first(times, bounds.since_ms)}

    narrowed = narrow({T1: (0, len(times))}, conditions, first_since=since)

    start, end = narrowed.get(T1, (0, 0))
    rows = [at for at, ms in enumerate(times) if accepted(conditions, T1, at, ms)]
    assert all(start <= at < end for at in rows)
    assert 0 <= start <= end <= len(times)


@given(
    filters,
    st.lists(st.integers(0, 3_000), max_size=12),
    st.lists(st.integers(0, CLOCK_SKEW_MS), min_size=12, max_size=12),
)
def test_no_row_goes_missing_with_append_time(
    conditions: list[Condition], steps: list[int], skews: list[int]
) -> None:
    """With LogAppendTime both bounds narrow, also if a new leader's clock is a second behind."""
    times = [ms - skew for ms, skew in zip(sorted(steps), skews, strict=False)]
    bounds = time_bounds(conditions)
    since = {} if bounds.since_ms is None else {T1: first(times, bounds.since_ms)}
    limit = None if bounds.before_ms is None else bounds.before_ms + CLOCK_SKEW_MS
    after = {} if limit is None else {T1: first(times, limit)}

    narrowed = narrow({T1: (0, len(times))}, conditions, first_since=since, first_after=after)

    start, end = narrowed.get(T1, (0, 0))
    rows = [at for at, ms in enumerate(times) if accepted(conditions, T1, at, ms)]
    assert all(start <= at < end for at in rows)
