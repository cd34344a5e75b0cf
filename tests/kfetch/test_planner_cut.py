"""Cutting ranges: the figures of Spark's connector, and how packing keeps to ``minPartitions``."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import OptionError
from kfetch.model import OffsetRange
from kfetch.options.source import PlanningOptions
from kfetch.planner import MAX_SPLITS, cut, pack, plan_splits
from tests.kfetch.planner_ranges import offset_range, ranges

A, B, C = "abc"
Bounds = list[tuple[str, list[int]]]

# (minPartitions, maxRecordsPerPartition, ranges as (topic, start, end), cuts of each as offsets):
# the cases of KafkaOffsetRangeCalculatorSuite, Spark 4.2.0.
CASES: list[tuple[int | None, int | None, list[tuple[str, int, int]], Bounds]] = [
    (None, None, [(A, 1, 2)], [(A, [1, 2])]),
    (None, None, [(A, 1, 2), (B, 1, 1)], [(A, [1, 2])]),
    (3, None, [(A, 1, 2), (B, 1, 2), (C, 1, 2)], [(A, [1, 2]), (B, [1, 2]), (C, [1, 2])]),
    (4, None, [(A, 1, 5)], [(A, [1, 2, 3, 4, 5])]),
    (4, None, [(A, 1, 5), (B, 1, 21)], [(A, [1, 5]), (B, [1, 7, 14, 21])]),
    (4, None, [(A, 1, 1), (B, 1, 21)], [(B, [1, 6, 11, 16, 21])]),
    (4, None, [(A, 1, 2), (B, 1, 1001)], [(A, [1, 2]), (B, [1, 334, 667, 1001])]),
    (1, None, [(A, 1, 5), (B, 1, 21)], [(A, [1, 5]), (B, [1, 21])]),
    (2, None, [(A, 1, 2), (B, 1, 100)], [(A, [1, 2]), (B, [1, 100])]),
    (3, None, [(A, 1, 11)], [(A, [1, 4, 7, 11])]),
    (4, None, [(A, 1, 5), (B, 1, 21), (C, 1, 1)], [(A, [1, 5]), (B, [1, 7, 14, 21])]),
    (
        6,
        None,
        [(A, 0, 10), (B, 0, 10), (C, 0, 1)],
        [(A, [0, 3, 6, 10]), (B, [0, 3, 6, 10]), (C, [0, 1])],
    ),
    (
        9,
        None,
        [(A, 0, 10000), (B, 0, 15000), (C, 0, 20000)],
        [
            (A, [0, 5000, 10000]),
            (B, [0, 5000, 10000, 15000]),
            (C, [0, 5000, 10000, 15000, 20000]),
        ],
    ),
    (
        6,
        None,
        [(A, 0, 500), (B, 0, 12000), (C, 0, 15001)],
        [(A, [0, 500]), (B, [0, 6000, 12000]), (C, [0, 5000, 10000, 15001])],
    ),
    (
        6,
        None,
        [(A, 0, 1), (B, 0, 1), (C, 0, 10000)],
        [(A, [0, 1]), (B, [0, 1]), (C, [0, 2500, 5000, 7500, 10000])],
    ),
    (None, 4, [(A, 1, 5)], [(A, [1, 5])]),
    (None, 4, [(A, 1, 2)], [(A, [1, 2])]),
    (None, 4, [(A, 1, 6)], [(A, [1, 3, 6])]),
    (
        None,
        20,
        [(A, 1, 40), (B, 1, 50), (C, 1, 60)],
        [(A, [1, 20, 40]), (B, [1, 17, 33, 50]), (C, [1, 20, 40, 60])],
    ),
    (1, 20, [(A, 1, 40)], [(A, [1, 20, 40])]),
    (4, 20, [(A, 1, 40)], [(A, [1, 10, 20, 30, 40])]),
    # Not in the suite. Half an offset's share is rounded up, as Java rounds.
    (5, None, [(A, 0, 3), (B, 0, 1)], [(A, [0, 1, 2, 3]), (B, [0, 1])]),
    # A piece that is too small leaves its partition's other pieces whole.
    (4, 3, [(A, 0, 5), (B, 0, 2)], [(A, [0, 2, 5]), (B, [0, 2])]),
    (2**31 - 1, None, [(A, 0, 3)], [(A, [0, 1, 2, 3])]),
]


@pytest.mark.connector_case(
    "KafkaMicroBatchV2SourceSuite",
    "minPartitions is supported",
)
@pytest.mark.connector_case(
    "KafkaOffsetRangeCalculatorSuite",
    "with no minPartition: *",
    "N TopicPartitions to N offset ranges",
    "1 TopicPartition to N offset ranges",
    "N skewed TopicPartitions to M offset ranges",
    "SPARK-30656: *",
    "range inexact multiple of minPartitions",
    "empty ranges ignored",
    "SPARK-36576: *",
    "SPARK-49259: *",
)
@pytest.mark.parametrize(("min_partitions", "max_records", "uncut", "bounds"), CASES)
def test_figures_of_the_connector(
    min_partitions: int | None,
    max_records: int | None,
    uncut: list[tuple[str, int, int]],
    bounds: Bounds,
) -> None:
    """Ranges are cut where Spark's connector cuts them, for both options alone and together."""
    items = [offset_range(topic, 1, start, end - start) for topic, start, end in uncut]
    found = cut(items, min_partitions=min_partitions, max_records=max_records)
    expected = [(topic, start, end) for topic, at in bounds for start, end in pairwise(at)]

    assert expected == [(item.tp.topic, item.start, item.end) for item in found]


minimums = st.none() | st.integers(1, 40)
maximums = st.none() | st.integers(1000, 10**5)


@pytest.mark.connector_case(
    "KafkaOffsetRangeCalculatorSuite",
    "SPARK-28489: never drop offsets",
)
@given(ranges, minimums, maximums)
def test_cutting_keeps_every_offset(
    items: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    """The pieces of a range, put together, are the range; each keeps its leader and epoch."""
    pieces = cut(items, min_partitions=min_partitions, max_records=max_records)
    joined: list[OffsetRange] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before is not None and before.tp == piece.tp and before.end == piece.start:
            piece = joined_up(joined.pop(), piece)
        joined.append(piece)

    assert [item for item in items if item.size > 0] == joined


def joined_up(left: OffsetRange, right: OffsetRange) -> OffsetRange:
    """Two neighbours as one range."""
    assert (left.tp, left.leader, left.leader_epoch) == (right.tp, right.leader, right.leader_epoch)
    return offset_range(
        left.tp.topic, left.tp.partition, left.start, right.end - left.start, left.leader.node_id
    )


def split(items: list[OffsetRange], rows: int, **limits: int) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task."""
    planning = PlanningOptions(rows_per_split=rows, **limits)
    return [one.ranges for one in plan_splits("q", items, planning)]


@given(ranges, st.integers(1, 10**5))
def test_no_task_reads_more_than_it_may(items: list[OffsetRange], max_records: int) -> None:
    """``maxRecordsPerPartition`` bounds every task, packed ones too."""
    max_records = max(max_records, sum(item.size for item in items) // 1000)
    for one in split(items, 10**9, max_records=max_records):
        assert sum(item.size for item in one) <= max_records


@given(ranges, st.integers(1, 40), st.sampled_from([0, 50, 10**9]))
def test_packing_keeps_min_partitions(
    items: list[OffsetRange], min_partitions: int, rows: int
) -> None:
    """Packing makes at least ``minPartitions`` tasks, if the connector has as many ranges. Without
    packing, the tasks are the connector's ranges."""
    pieces = cut(items, min_partitions=min_partitions)
    splits = split(items, rows, min_partitions=min_partitions)

    assert min(min_partitions, len(pieces)) <= len(splits) <= len(pieces)
    assert sorted(map(str, pieces)) == sorted(str(item) for split in splits for item in split)
    if rows == 0:
        assert len(pieces) == len(splits)


@given(ranges, st.integers(1, 40), st.integers(1000, 10**5))
def test_pieces_of_a_partition_have_tasks_of_their_own(
    items: list[OffsetRange], min_partitions: int, max_records: int
) -> None:
    """No task reads two pieces of one partition: a fetch session has one position for it."""
    for one in split(items, 10**9, min_partitions=min_partitions, max_records=max_records):
        assert len(one) == len({item.tp for item in one})


def test_trickles_are_spread_over_the_least() -> None:
    """1,000 small partitions and minPartitions=8 are 8 tasks of the same size."""
    items = [offset_range("t", p, 0, 20, 1 + p % 3) for p in range(1000)]

    assert [125] * 8 == [len(one) for one in split(items, 100_000, min_partitions=8)]


def test_a_huge_partition_counts_as_one_of_the_least() -> None:
    """Beside a range that stands alone, the small ones still fill the other tasks."""
    items = [offset_range("t", 0, 0, 10**9), *(offset_range("t", p, 0, 10) for p in range(1, 10))]

    assert [1, 3, 3, 3] == [len(split) for split in pack(items, 100_000, 4)]


def test_pieces_count_among_the_least() -> None:
    """Beside a partition that was cut into enough tasks, the small ones need but one."""
    items = [offset_range("t", 0, 0, 400), *(offset_range("t", p, 0, 10) for p in range(1, 10))]

    assert [100, 100, 100, 100, 90] == [
        sum(item.size for item in one)
        for one in split(items, 100_000, min_partitions=5, max_records=100)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_records": 1}, "option maxRecordsPerPartition is 1, but the 5000000000 offsets"),
        ({"min_partitions": 2**31 - 1}, "option minPartitions is 2147483647, but the 5000000000"),
    ],
)
def test_too_many_tasks(options: dict[str, int], message: str) -> None:
    """Options that would make more than a million tasks are an error that says so at once."""
    with pytest.raises(OptionError, match=message):
        cut([offset_range("t", 0, 0, 5 * 10**9)], **options)

    assert 10**6 == MAX_SPLITS
