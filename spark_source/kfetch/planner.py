"""Plans micro-batches: when one starts, its end offsets, and the ranges of each task. Pure.

Admission gives the end offsets. Ranges between two offsets are cut as Spark's connector cuts them.
Small ranges are packed together into splits, one per Spark task.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kfetch.errors import OptionError
from kfetch.model import OffsetRange, Split, TopicPartition
from kfetch.options.source import PlanningOptions

MAX_SPLITS = 1_000_000
"""The most tasks of a micro-batch. More are a mistake in the options."""


class TriggerDelay:
    """``minOffsetsPerTrigger`` and ``maxTriggerDelay``: decides when a micro-batch is due.

    The rules are those of Spark's connector (``KafkaMicroBatchStream.delayBatch``). The first
    micro-batch of a run is due at once. A later one is due when ``min_offsets`` offsets wait, or
    ``delay_max_s`` seconds after the last due one. A planning without new offsets does not count as
    the last one. So after an idle time the first record does not wait again.
    """

    def __init__(self, delay_max_s: float) -> None:
        self._delay_max_s = delay_max_s
        self._last_due_s: float | None = None

    def due(self, backlog: int, min_offsets: int, now_s: float) -> bool:
        """Returns whether a micro-batch of ``backlog`` offsets starts now.

        ``now_s`` is the time in seconds of any steady clock.
        """
        if self._last_due_s is None:
            self._last_due_s = now_s
            return True
        due = backlog >= min_offsets or now_s - self._last_due_s >= self._delay_max_s
        if due and backlog:
            self._last_due_s = now_s
        return due


def admit(
    begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """Returns the end offsets of a micro-batch: ``latest``, or about ``limit`` offsets in total.

    Partitions share the limit in proportion to their backlog. A share below one offset is rounded
    up, so that a small partition beside a huge one makes progress. The total may then exceed the
    limit by less than the number of partitions. These are the rules of Spark's connector
    (``KafkaMicroBatchStream.rateLimit``).
    """
    backlog = {tp: max(0, end - begin[tp]) for tp, end in latest.items()}
    total = sum(backlog.values())
    if limit is None or total <= limit:
        return {tp: begin[tp] + size for tp, size in backlog.items()}
    return {tp: begin[tp] + min(size, _share(size, total, limit)) for tp, size in backlog.items()}


def _share(size: int, total: int, limit: int) -> int:
    # Integers are exact. The connector's doubles may give one offset less (29 of 100 at a limit of
    # 100 is 28 there), and above 2**53 they would lose more.
    return max(size * limit // total, min(size, 1))


def plan_splits(
    query: str, ranges: Iterable[OffsetRange], planning: PlanningOptions
) -> list[Split]:
    """Returns the tasks of a micro-batch or of a batch read, the longest split first.

    ``cut`` gives the connector's ranges, which are one task each there. Packing then saves tasks. A
    packed split has up to ``rows_per_split`` offsets and never more than ``max_records``. There are
    at least ``min_partitions`` splits if ``cut`` gives as many ranges.
    """
    least, most = planning.min_partitions, planning.max_records
    pieces = cut(ranges, min_partitions=least, max_records=most)
    rows = planning.rows_per_split if most is None else min(planning.rows_per_split, most)
    return [Split(query=query, ranges=packed) for packed in pack(pieces, rows, least or 1)]


def cut(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Returns the ranges of Spark's connector (``KafkaOffsetRangeCalculator.getRanges``, 4.2).

    Empty ranges are left out. First, ranges above ``max_records`` offsets are cut evenly. If there
    are then fewer than ``min_partitions``, large ranges are cut in proportion to their size.
    Rounding may give some ranges more or fewer than ``min_partitions``. Raises OptionError for more
    than ``MAX_SPLITS`` ranges.
    """
    pieces = [item for item in ranges if item.size > 0]
    if max_records is not None:
        counts = [-(-item.size // max_records) for item in pieces]
        pieces = _cut_evenly(pieces, counts, f"maxRecordsPerPartition is {max_records}")
    if min_partitions is not None and min_partitions > len(pieces):
        counts = _part_counts(pieces, min_partitions)
        pieces = _cut_evenly(pieces, counts, f"minPartitions is {min_partitions}")
    return pieces


def _part_counts(pieces: Sequence[OffsetRange], target: int) -> list[int]:
    """Returns the number of parts of each range, about ``target`` parts in total.

    Small ranges are one part each, and the other ranges share the rest of ``target``
    (SPARK-36576). A partition with one small piece is not cut at all.
    """
    total = sum(item.size for item in pieces)
    small = [item for item in pieces if _parts(item.size, total, target) == 1]
    uncut = {item.tp for item in small}
    rest = total - sum(item.size for item in small)
    rest_target = max(target - len(small), 1)
    return [1 if item.tp in uncut else _parts(item.size, rest, rest_target) for item in pieces]


def _parts(size: int, total: int, target: int) -> int:
    # Doubles and round-half-up, as in the connector, so that the counts are its counts.
    share = float(size) / float(total) * target
    whole = math.floor(share)
    return max(whole + (share - whole >= 0.5), 1)


def _cut_evenly(
    pieces: Sequence[OffsetRange], counts: Sequence[int], setting: str
) -> list[OffsetRange]:
    counts = [min(parts, item.size) for item, parts in zip(pieces, counts, strict=True)]
    if sum(counts) > MAX_SPLITS:
        raise OptionError(
            f"option {setting}, but the {sum(item.size for item in pieces)} offsets of this "
            f"micro-batch would be {sum(counts)} tasks, and {MAX_SPLITS} are the most",
            action="change it, or limit the micro-batch with maxOffsetsPerTrigger",
        )
    return [p for item, parts in zip(pieces, counts, strict=True) for p in _even_parts(item, parts)]


def _even_parts(item: OffsetRange, parts: int) -> Iterable[OffsetRange]:
    """Cut a range into even parts. Parts that are one offset longer come last."""
    size, longer = divmod(item.size, parts)
    start = item.start
    for part in range(parts):
        end = start + size + (part >= parts - longer)
        yield replace(item, start=start, end=end)
        start = end


def pack(
    ranges: Iterable[OffsetRange], rows_per_split: int, min_splits: int = 1
) -> list[tuple[OffsetRange, ...]]:
    """Group ranges into splits, the longest split first.

    A range of at least ``rows_per_split`` offsets has its own split, and so has each piece of a cut
    partition. Smaller ranges share a split up to that size, ranges of one broker side by side. So
    1,000 partitions with few records are a handful of tasks. ``rows_per_split=0`` gives every range
    its own split. Splits are smaller if there would be fewer than ``min_splits``. Empty ranges are
    left out.
    """
    nonempty = [item for item in ranges if item.size > 0]
    pieces = Counter(item.tp for item in nonempty)
    cut_pieces = sorted((item for item in nonempty if pieces[item.tp] > 1), key=_broker_order)
    uncut = [item for item in nonempty if pieces[item.tp] == 1]
    size_for_min = _split_size([item.size for item in uncut], min_splits - len(cut_pieces))
    split_size = min(rows_per_split, size_for_min)
    filled = _filled_splits(sorted(uncut, key=_broker_order), split_size)
    packed = [(item,) for item in cut_pieces] + filled
    # The task that takes longest starts first, so that it does not finish alone.
    return sorted(packed, key=lambda split: -sum(item.size for item in split))


def _split_size(sizes: Iterable[int], min_splits: int) -> int:
    """Returns the largest split size at which ranges of these sizes fill ``min_splits`` splits.

    It is an even share of all offsets, without ranges that are larger than their share.
    """
    sizes, splits = sorted(sizes, reverse=True), max(min_splits, 1)
    total = sum(sizes)
    for size in sizes:
        if splits == 1 or size * splits < total:
            break
        total, splits = total - size, splits - 1
    return total // splits


def _filled_splits(ranges: Iterable[OffsetRange], split_size: int) -> list[tuple[OffsetRange, ...]]:
    """Group neighbours into splits of up to ``split_size`` offsets. A larger range has its own."""
    splits: list[tuple[OffsetRange, ...]] = []
    packed: list[OffsetRange] = []
    rows = 0
    for item in ranges:
        if item.size >= split_size:
            splits.append((item,))
            continue
        if rows + item.size > split_size:
            splits.append(tuple(packed))
            packed, rows = [], 0
        packed.append(item)
        rows += item.size
    return [*splits, tuple(packed)] if packed else splits


def _broker_order(item: OffsetRange) -> tuple[int, TopicPartition, int]:
    return item.leader.node_id, item.tp, item.start
