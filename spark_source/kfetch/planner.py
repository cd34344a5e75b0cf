"""Planning, pure: when a micro-batch starts, how much it admits, and which task reads what.

Admission gives end offsets; ranges between two offsets are cut as Spark's connector cuts them, and
the small ones are packed together into splits, one per Spark task.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kfetch.errors import OptionError
from kfetch.model import OffsetRange, TopicPartition

MAX_SPLITS = 1_000_000
"""More tasks than this in one micro-batch are a mistake in the options."""


class TriggerDelay:
    """``minOffsetsPerTrigger`` and ``maxTriggerDelay``: is the next micro-batch due?

    As in Spark's connector (``KafkaMicroBatchStream.delayBatch``), the first look-up of a query,
    new or restarted, is due at once; later ones when ``least`` offsets wait, or ``patience_s``
    seconds after the last that was due. A look-up that finds nothing does not count as the last
    one: it may be repeated at once, and after a stand-still the first record does not wait again.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._last_s: float | None = None

    def due(self, backlog: int, least: int, now_s: float) -> bool:
        """Whether a micro-batch of ``backlog`` offsets starts now, by any steady clock."""
        first = self._last_s is None
        due = first or backlog >= least or now_s - (self._last_s or 0.0) >= self._patience_s
        if first or (due and backlog):
            self._last_s = now_s
        return due


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
    # In whole numbers: the connector's doubles may come out one offset lower (29 of 100 at a
    # limit of 100 is 28 there), and above 2**53 they would lose more.
    return max(size * limit // total, min(size, 1))


def plan_splits(
    ranges: Iterable[OffsetRange],
    rows_per_split: int,
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[tuple[OffsetRange, ...]]:
    """What the tasks of a micro-batch read, the longest first.

    ``cut`` gives the connector's ranges, one task each there. Packing then spares tasks: up to
    ``rows_per_split`` offsets, never more than ``max_records``, and never below
    ``min_partitions`` splits if the connector's ranges are as many.
    """
    pieces = cut(ranges, min_partitions=min_partitions, max_records=max_records)
    most = rows_per_split if max_records is None else min(rows_per_split, max_records)
    return pack(pieces, most, min_partitions or 1)


def cut(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """The ranges of Spark's connector, in order (``KafkaOffsetRangeCalculator.getRanges``, 4.2).

    Empty ranges are left out. First, ranges above ``max_records`` offsets are cut evenly. Then, if
    these are fewer than ``min_partitions``, large ones are cut in proportion to size until there
    are about as many; rounding may give some more or fewer. Raises OptionError if that would be
    more than ``MAX_SPLITS``.
    """
    pieces = [item for item in ranges if item.size > 0]
    if max_records is not None:
        counts = [-(-item.size // max_records) for item in pieces]
        pieces = _divided(pieces, counts, f"maxRecordsPerPartition is {max_records}")
    if min_partitions is not None and min_partitions > len(pieces):
        counts = _counts(pieces, min_partitions)
        pieces = _divided(pieces, counts, f"minPartitions is {min_partitions}")
    return pieces


def _counts(pieces: Sequence[OffsetRange], wanted: int) -> list[int]:
    """Into how many parts each range is cut to make about ``wanted`` of all.

    Ranges too small to be cut count as one part each, and the rest share what remains of
    ``wanted`` (SPARK-36576). A partition of which one piece is too small is not cut at all.
    """
    total = sum(item.size for item in pieces)
    small = [item for item in pieces if _parts(item.size, total, wanted) == 1]
    whole = {item.tp for item in small}
    rest = total - sum(item.size for item in small)
    left = max(wanted - len(small), 1)
    return [1 if item.tp in whole else _parts(item.size, rest, left) for item in pieces]


def _parts(size: int, total: int, wanted: int) -> int:
    # Doubles and round-half-up, as in the connector, so that the counts are its counts.
    share = float(size) / float(total) * wanted
    whole = math.floor(share)
    return max(whole + (share - whole >= 0.5), 1)


def _divided(pieces: Sequence[OffsetRange], counts: Sequence[int], why: str) -> list[OffsetRange]:
    counts = [min(parts, item.size) for item, parts in zip(pieces, counts, strict=True)]
    if sum(counts) > MAX_SPLITS:
        raise OptionError(
            f"option {why}, but the {sum(item.size for item in pieces)} offsets of this "
            f"micro-batch would be {sum(counts)} tasks, and {MAX_SPLITS} are the most",
            action="change it, or bound the micro-batch with maxOffsetsPerTrigger",
        )
    return [p for item, parts in zip(pieces, counts, strict=True) for p in _even(item, parts)]


def _even(item: OffsetRange, parts: int) -> Iterable[OffsetRange]:
    """Cut a range into even parts; those that are one offset longer stand last."""
    size, longer = divmod(item.size, parts)
    start = item.start
    for part in range(parts):
        end = start + size + (part >= parts - longer)
        yield replace(item, start=start, end=end)
        start = end


def pack(
    ranges: Iterable[OffsetRange], rows_per_split: int, least: int = 1
) -> list[tuple[OffsetRange, ...]]:
    """Group ranges into splits, the longest split first.

    A range of at least ``rows_per_split`` offsets stands alone, and so does each piece of a
    partition that was cut. Smaller ones share a split up to that size, those of one broker side by
    side, so that 1,000 trickling partitions are a handful of tasks; ``rows_per_split=0`` gives
    every range its own split. Splits are smaller where there would be fewer than ``least`` (or
    than ranges, if these are fewer still). Empty ranges are left out.
    """
    given = [item for item in ranges if item.size > 0]
    pieces = Counter(item.tp for item in given)
    alone = sorted((item for item in given if pieces[item.tp] > 1), key=_place)
    whole = [item for item in given if pieces[item.tp] == 1]
    most = min(rows_per_split, _room([item.size for item in whole], least - len(alone)))
    packed = [(item,) for item in alone] + _filled(sorted(whole, key=_place), most)
    # The task that takes longest starts first, so that it does not finish alone.
    return sorted(packed, key=lambda split: -sum(item.size for item in split))


def _room(sizes: Iterable[int], least: int) -> int:
    """How large splits may be so that ranges of these sizes fill at least ``least`` of them.

    An even share of all, less what stands alone because it is larger than its share.
    """
    sizes, wanted = sorted(sizes, reverse=True), max(least, 1)
    total = sum(sizes)
    for size in sizes:
        if wanted == 1 or size * wanted < total:
            break
        total, wanted = total - size, wanted - 1
    return total // wanted


def _filled(ranges: Iterable[OffsetRange], most: int) -> list[tuple[OffsetRange, ...]]:
    """Splits of neighbours up to ``most`` offsets; a larger range has its own."""
    splits: list[tuple[OffsetRange, ...]] = []
    packed: list[OffsetRange] = []
    rows = 0
    for item in ranges:
        if item.size >= most:
            splits.append((item,))
            continue
        if rows + item.size > most:
            splits.append(tuple(packed))
            packed, rows = [], 0
        packed.append(item)
        rows += item.size
    return [*splits, tuple(packed)] if packed else splits


def _place(item: OffsetRange) -> tuple[int, TopicPartition, int]:
    return item.leader.node_id, item.tp, item.start
