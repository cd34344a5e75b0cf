"""Plans a batch read in the driver: one look-up of offsets, then the splits for all tasks.

Spark asks for the splits once, when it plans the query. Offsets are fixed at that moment. The tasks
read these ranges to their ends, also when Spark repeats a task.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable
from functools import cached_property

from kfetch import losses
from kfetch.errors import DataLoss, OffsetBeyondLog, OptionError
from kfetch.losses import LogAnswer, ReadPosition, find_loss
from kfetch.model import NO_TOPIC_ID, ClusterView, Leader, OffsetRange, Split, TopicPartition
from kfetch.offsets import Position, Positions
from kfetch.options import EARLIEST, LATEST, Bound, SourceOptions
from kfetch.planner import plan_splits
from kfetch.watch.initial_positions import bound_positions
from kfetch.watch.lookups import OffsetLookup

log = logging.getLogger(__name__)

Ranges = dict[TopicPartition, tuple[int, int]]


def plan_batch(options: SourceOptions, lookup: OffsetLookup) -> list[Split]:
    """Returns the splits of a batch read, none if there is nothing to read.

    Raises OptionError for bounds that don't fit, an error below DataLoss for records that are gone,
    and BrokerError for a partition without a leader.
    """
    view = lookup.cluster_view()
    lookup.check_subscription(view)
    ranges = _Bounds(options, lookup, view).ranges()

    def leaders_in(view: ClusterView) -> dict[TopicPartition, Leader | None]:
        return {tp: view.leader(tp) for tp in ranges}

    leaders = lookup.await_leaders(leaders_in(view), leaders_in)
    planned = [
        _range(tp, start, end, leaders[tp], view) for tp, (start, end) in sorted(ranges.items())
    ]
    return plan_splits(uuid.uuid4().hex, planned, options.planning)


class _Bounds:
    """The ranges between the options' bounds that the logs have."""

    def __init__(self, options: SourceOptions, lookup: OffsetLookup, view: ClusterView) -> None:
        self._fail = options.fail_on_data_loss
        self._partitions = partitions = lookup.subscribed_partitions(view)
        now_ms = time.time_ns() // 1_000_000
        self._starting = options.starting.at_time(now_ms)
        ending = options.ending or Bound(option="endingOffsets", rest=LATEST)
        self._ending = ending.at_time(now_ms)
        self._lookup = lookup
        self._starts = bound_positions(self._starting, lookup, view, self._log_ends_of)
        self._ends = bound_positions(self._ending, lookup, view, self._log_ends_of)
        # The log starts come last. So a record that expires now is a loss.
        self._log_starts = lookup.log_starts(partitions)
        # Under read_committed, the log may go on behind its last stable offset.
        committed, ends = options.fetch.read_committed, self._log_ends
        bounds = (*self._starts.items(), *self._ends.items())
        beyond = [tp for tp, at in bounds if tp in ends and at.offset > ends[tp].offset]
        self._watermarks = lookup.high_watermarks(beyond if committed else ())

    @cached_property
    def _log_ends(self) -> Positions:
        """The log ends. One look-up serves all questions: a later one may find less or more."""
        return self._lookup.log_ends(self._partitions)

    def _log_ends_of(self, partitions: Iterable[TopicPartition]) -> Positions:
        return {tp: self._log_ends[tp] for tp in partitions if tp in self._log_ends}

    def ranges(self) -> Ranges:
        """Returns (start, end) of each partition with offsets to read."""
        ranges = {tp: self._range(tp) for tp in self._partitions if not self._is_gone(tp)}
        return {tp: (start, end) for tp, (start, end) in ranges.items() if start < end}

    def _is_gone(self, tp: TopicPartition) -> bool:
        """Returns whether the partition was deleted between the look-ups. Raises or logs it."""
        answers = (self._starts, self._ends, self._log_starts, self._log_ends)
        exists = all(tp in positions for positions in answers)
        read = ReadPosition(tp, *self._starts.get(tp, Position(0)))
        loss = find_loss(read, LogAnswer(exists=exists))
        self._report(losses.of_batch(loss) if loss else None)
        return loss is not None

    def _range(self, tp: TopicPartition) -> tuple[int, int]:
        start, end = self._starts[tp].offset, self._ends[tp].offset
        log_start, log_end = self._log_starts[tp].offset, self._log_ends[tp].offset
        # Records that a time finds behind the log end have come meanwhile.
        start = min(start, log_end) if self._starting.by_time else start
        end = min(end, log_end) if self._ending.by_time else end
        if self._starting.place(tp) == EARLIEST:  # records that expire meanwhile are no loss
            start = max(start, min(log_start, end))
        watermark = self._watermarks.get(tp, self._log_ends[tp]).offset
        no_match = self._ending.by_time and end == log_end
        if log_end < start <= watermark and (no_match or self._ending.place(tp) == LATEST):
            unread = f"the records from the start offset {start} on"
            self._report(_open_transaction(tp, unread, start, log_end))
            return start, start
        if start > end:
            raise _wrong_order(tp, start, end)
        if end > watermark:
            self._report(_beyond_log(tp, end, watermark))
        elif end > log_end:
            unread = f"the records up to the end offset {end}"
            self._report(_open_transaction(tp, unread, end, log_end))
        if start < end:
            answer = LogAnswer(log_start=log_start, log_end=watermark)
            loss = find_loss(ReadPosition(tp, start, end=end), answer)
            self._report(losses.of_batch(loss) if loss else None)
        return max(start, log_start), min(end, log_end)

    def _report(self, loss: DataLoss | None) -> None:
        """Raise or log a loss, if there is one."""
        if loss is not None and self._fail:
            raise loss
        if loss is not None:
            log.warning("kfetch: %s", losses.warning(loss))


def _wrong_order(tp: TopicPartition, start: int, end: int) -> OptionError:
    # The connector's words.
    return OptionError(
        f"The resolved start offset {start} is greater than the resolved end offset {end} for "
        f"topic {tp.topic} partition {tp.partition}",
        action="change the starting or the ending options",
        **tp._asdict(),
    )


def _beyond_log(tp: TopicPartition, end: int, log_end: int) -> OffsetBeyondLog:
    return OffsetBeyondLog(
        f"{tp}: the end offset {end} lies past the log end {log_end}. The log was truncated, or "
        "endingOffsets lies past its end",
        action="Set failOnDataLoss=false to read up to the log end",
        **tp._asdict(),
        offset=end,
        high_watermark=log_end,
    )


def _open_transaction(tp: TopicPartition, unread: str, offset: int, stable: int) -> OffsetBeyondLog:
    return OffsetBeyondLog(
        f"{tp}: an open transaction begins at offset {stable}, so {unread} can't be read yet",
        action="Load the batch again when the transaction has ended, or set failOnDataLoss=false "
        "to leave them out",
        **tp._asdict(),
        offset=offset,
        high_watermark=stable,
    )


def _range(
    tp: TopicPartition, start: int, end: int, leader: Leader, view: ClusterView
) -> OffsetRange:
    topic = view.topics.get(tp.topic)
    return OffsetRange(
        tp=tp,
        topic_id=topic.topic_id if topic else NO_TOPIC_ID,
        start=start,
        end=end,
        leader_epoch=leader.epoch,
        leader=leader.broker,
    )
