"""Admission and packing as properties, with the figures of Spark's connector."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.model import OffsetRange, TopicPartition
from kfetch.planner import TriggerDelay, admit, pack
from tests.kfetch.planner_ranges import offset_range, ranges

A, B, C = (TopicPartition("t", p) for p in range(3))

offset = st.integers(0, 2**62)
backlogs = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 30)),
    st.tuples(offset, st.integers(0, 1000) | st.integers(0, 2**62)),
    max_size=12,
)
limits = st.integers(1, 100) | st.integers(1, 2**63 - 1)


def _admitted(
    backlog: dict[TopicPartition, tuple[int, int]], limit: int | None
) -> dict[TopicPartition, int]:
    begin = {tp: start for tp, (start, _) in backlog.items()}
    latest = {tp: start + size for tp, (start, size) in backlog.items()}
    ends = admit(begin, latest, limit)
    assert set(backlog) == set(ends)
    return {tp: end - begin[tp] for tp, end in ends.items()}


@given(backlogs, limits)
def test_admits_within_the_log(backlog: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    """A micro-batch ends at or before the log end, and never before its start."""
    for tp, size in _admitted(backlog, limit).items():
        assert 0 <= size <= backlog[tp][1]


@given(backlogs, limits)
def test_admits_about_the_limit(backlog: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    """The total exceeds the limit by less than the number of partitions, and never the backlog."""
    total = sum(size for _, size in backlog.values())
    admitted = sum(_admitted(backlog, limit).values())

    assert admitted <= limit + len(backlog)
    assert admitted >= min(total, limit) - len(backlog)
    if total <= limit:
        assert total == admitted


@given(backlogs, limits)
def test_nobody_starves(backlog: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    """Every partition with a backlog gets at least one offset of every micro-batch."""
    for tp, size in _admitted(backlog, limit).items():
        assert (size > 0) is (backlog[tp][1] > 0)


@given(backlogs)
def test_no_limit_admits_all(backlog: dict[TopicPartition, tuple[int, int]]) -> None:
    """Without a limit a micro-batch ends where the log does."""
    assert {tp: size for tp, (_, size) in backlog.items()} == _admitted(backlog, None)


@given(offset, st.integers(1, 2**62), st.none() | limits)
def test_log_behind_the_beginning(begin: int, behind: int, limit: int | None) -> None:
    """A log that ends before the position does not move the position back."""
    assert {A: begin} == admit({A: begin}, {A: begin - behind}, limit)


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "SPARK-26718 Rate limit set to Long.Max should not overflow *",
    "maxOffsetsPerTrigger",
)
@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ((101, 11, 1), 10, (8, 1, 1)),
        ((93, 10, 0), 10, (9, 1, 0)),
        ((84, 9, 0), 10, (9, 1, 0)),
        ((5, 5, 5), 15, (5, 5, 5)),
        ((5, 5, 5), 16, (5, 5, 5)),
        ((5, 5, 5), 1, (1, 1, 1)),
        ((0, 0, 0), 10, (0, 0, 0)),
        ((2**62, 2**62, 1), 2**62, (2**61 - 1, 2**61 - 1, 1)),
        ((2**62, 1, 1), 1, (1, 1, 1)),
        ((2**53 + 1, 1, 0), 2**53 + 1, (2**53, 1, 0)),
        ((100, 100, 100), 2**63 - 1, (100, 100, 100)),
    ],
)
def test_shares(sizes: tuple[int, ...], limit: int, expected: tuple[int, ...]) -> None:
    """Shares are in proportion, a share below one is one (Spark's figures: 101/11/1 at 10)."""
    begin = {A: 7, B: 0, C: 2**40}
    latest = {tp: begin[tp] + size for tp, size in zip(begin, sizes, strict=True)}

    ends = admit(begin, latest, limit)

    assert expected == tuple(ends[tp] - begin[tp] for tp in (A, B, C))


def test_ratio_too_small_for_a_float() -> None:
    """A share whose ratio is no float still gets one offset."""
    ends = admit({A: 0, B: 0}, {A: 10**400, B: 1}, 1)

    assert {A: 1, B: 1} == ends


def test_partition_that_is_gone_is_left_out() -> None:
    """Only partitions of ``latest`` get an end."""
    assert {A: 5} == admit({A: 1, B: 1}, {A: 5}, None)


sizes = st.integers(0, 100)


@given(ranges, sizes)
def test_packs_every_range_once(items: list[OffsetRange], rows: int) -> None:
    """Every nonempty range is in exactly one split."""
    packed = [item for split in pack(items, rows) for item in split]

    assert sorted(str(i) for i in items if i.size > 0) == sorted(str(i) for i in packed)


@given(ranges, sizes)
def test_splits_have_a_size(items: list[OffsetRange], rows: int) -> None:
    """A split is one long range, or short ones up to the size; none is empty."""
    for split in pack(items, rows):
        assert split
        assert 1 == len(split) or sum(item.size for item in split) <= rows


@given(ranges, sizes)
def test_longest_split_first(items: list[OffsetRange], rows: int) -> None:
    """The splits are sorted by size, the longest first."""
    totals = [sum(item.size for item in split) for split in pack(items, rows)]

    assert sorted(totals, reverse=True) == totals


@given(ranges, sizes)
def test_brokers_side_by_side(items: list[OffsetRange], rows: int) -> None:
    """Within a split, ranges are sorted by broker, topic and partition."""
    for split in pack(items, rows):
        places = [(item.leader.node_id, item.tp) for item in split]
        assert sorted(places) == places


@given(ranges, sizes, st.randoms())
def test_order_of_ranges_does_not_matter(items: list[OffsetRange], rows: int, random: Any) -> None:
    """The same ranges give the same splits, in whatever order they come."""
    shuffled = list(items)
    random.shuffle(shuffled)

    assert pack(items, rows) == pack(shuffled, rows)


@given(ranges, st.integers(1, 100))
def test_few_splits(items: list[OffsetRange], rows: int) -> None:
    """Two packed splits in a row never fit into one: trickling partitions share a task."""
    small = [split for split in pack(items, rows) if all(i.size < rows for i in split)]
    total = sum(item.size for split in small for item in split)

    assert len(small) <= 2 * total // rows + 1


@given(ranges)
def test_zero_gives_each_its_own(items: list[OffsetRange]) -> None:
    """``rowsPerSplit=0`` makes one split of every range."""
    assert {(i,) for i in items if i.size > 0} == set(pack(items, 0))


def test_thousand_trickles_are_a_handful() -> None:
    """1,000 partitions with 10 offsets each are one task, not 1,000."""
    items = [offset_range("t", p, 0, 10, 1 + p % 3) for p in range(1000)]

    assert [1000] == [len(split) for split in pack(items, 100_000)]


DELAYS: list[tuple[str, list[tuple[float, int, bool]]]] = [
    ("the first look-up is due, whatever there is", [(1000.0, 0, True), (1000.0, 9, False)]),
    ("enough offsets are due", [(0.0, 0, True), (1.0, 9, False), (2.0, 10, True), (3.0, 9, False)]),
    ("the delay counts from what was due", [(0.0, 3, True), (5.0, 10, True), (14.9, 9, False)]),
    ("after the delay a single offset is due", [(0.0, 3, True), (9.9, 1, False), (10.0, 1, True)]),
    (
        "nothing does not begin a delay",
        [(0, 3, True), (10, 0, True), (10, 1, True), (19, 1, False)],
    ),
    ("but the first look-up does", [(0, 0, True), (0, 1, False), (10, 1, True)]),
]


@pytest.mark.parametrize("asked", [row[1] for row in DELAYS], ids=[row[0] for row in DELAYS])
def test_trigger_delay(asked: list[tuple[float, int, bool]]) -> None:
    """A micro-batch is of at least 10 offsets, or starts 10 s after the last one."""
    delay = TriggerDelay(10.0)

    assert [due for *_, due in asked] == [delay.due(size, 10, now) for now, size, _ in asked]
