"""Planning, pure: how much a micro-batch admits, and which task reads what.

Admission gives end offsets; ranges between two offsets become splits, one per Spark task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_source.model import OffsetRange, TopicPartition


def admit(
    begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """End offsets of a micro-batch: ``latest``, or about ``limit`` offsets in all.

    The limit is shared in proportion to backlog. A share below one offset is rounded up, so that
    a small partition beside a huge one is not starved; the total may then exceed the limit by
    less than the number of partitions. These are the rules of Spark's connector
    (``KafkaMicroBatchStream.rateLimit``).
    """
    backlog = {tp: max(0, end - begin[tp]) for tp, end in latest.items()}
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return {tp: begin[tp] + size for tp, size in backlog.items()}
    return {tp: begin[tp] + min(size, _share(size, total, limit)) for tp, size in backlog.items()}


def _share(size: int, total: int, limit: int) -> int:
    # In whole numbers: a float share of a backlog above 2**53 would lose offsets.
    return max(size * limit // total, min(size, 1))


def pack(ranges: Iterable[OffsetRange], rows_per_split: int) -> list[tuple[OffsetRange, ...]]:
    """Group ranges into splits, the longest split first.

    A range of at least ``rows_per_split`` offsets stands alone. Smaller ones share a split up to
    that size, those of one broker side by side, so that 1,000 trickling partitions are a handful
    of tasks; ``rows_per_split=0`` gives every range its own split. Empty ranges are left out.
    """
    splits: list[tuple[OffsetRange, ...]] = []
    packed: list[OffsetRange] = []
    rows = 0
    for item in sorted(filter(_not_empty, ranges), key=_place):
        if item.size >= rows_per_split:
            splits.append((item,))
            continue
        if packed and rows + item.size > rows_per_split:
            splits.append(tuple(packed))
            packed, rows = [], 0
        packed.append(item)
        rows += item.size
    if packed:
        splits.append(tuple(packed))
    # The task that takes longest starts first, so that it does not finish alone.
    return sorted(splits, key=lambda split: -sum(item.size for item in split))


def _not_empty(item: OffsetRange) -> bool:
    return item.size > 0


def _place(item: OffsetRange) -> tuple[int, TopicPartition]:
    return item.leader.node_id, item.tp
