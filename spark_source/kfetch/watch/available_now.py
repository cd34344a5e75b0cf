"""The end of an AvailableNow query: the log ends of its first look-up, until the query ends.

A lost end is an error, whatever ``failOnDataLoss`` says, as in Spark's connector. The query must
reach its end, and it can't if a partition is deleted or a log ends below that end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from kfetch.errors import DataLoss, PartitionGone
from kfetch.losses import LogAnswer, ReadPosition, find_loss
from kfetch.model import NO_TOPIC_ID, TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.watch.lookups import OffsetLookup
from kfetch.watch.position_check import PositionCheck
from kfetch.watch.state import WatchState

_LOST = "lost while an AvailableNow query was reading"
_ADVICE = "start the query again to read the remaining records"


class AvailableNowEnds:
    """The log ends at which an AvailableNow query ends."""

    def __init__(
        self,
        log_ends: Mapping[TopicPartition, Position],
        topic_ids: Mapping[str, UUID],
        lookup: OffsetLookup,
        state: WatchState,
    ) -> None:
        self._ends = Offsets(positions=log_ends, topic_ids=topic_ids)
        self._state = state
        self._check = PositionCheck(lookup, state, fail=True)

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Returns the ends of these partitions, without partitions that are new since.

        Raises PartitionGone, TopicRecreated, LogTruncated or OffsetBeyondLog for a lost end.
        """
        ends = self._ends.restricted_to(partitions)
        gone = sorted(str(tp) for tp in ends.positions if not self._state.exists(tp))
        if gone:
            raise PartitionGone(f"{', '.join(gone)}: {_LOST} them; {_ADVICE}", partitions=gone)
        self._check_epochs(ends)
        for tp, end in ends.positions.items():
            self._check_end(tp, end)
        return dict(ends.positions)

    def _check_epochs(self, ends: Offsets) -> None:
        """Ask every leader that is new since the first look-up whether it has the records.

        Expired records are no lost end: the query has nothing to read before it.
        """
        positions = ends.positions
        unchecked = [
            tp
            for tp, end in positions.items()
            if self._has_new_leader(tp, end) and self._state.log_start(tp).offset <= end.offset
        ]
        if not unchecked:
            return
        try:
            self._check.valid_offsets(ends.restricted_to(unchecked))
        except DataLoss as loss:
            raise _lost(loss) from None

    def _has_new_leader(self, tp: TopicPartition, end: Position) -> bool:
        leader = self._state.leader(tp)
        return leader is not None and leader.epoch != end.leader_epoch

    def _check_end(self, tp: TopicPartition, end: Position) -> None:
        log_end = self._state.log_end(tp)
        answer = LogAnswer(
            topic_id=self._state.topic_ids.get(tp.topic, NO_TOPIC_ID),
            log_end=None if log_end is None else log_end.offset,
        )
        loss = find_loss(ReadPosition(tp, *end, topic_id=self._ends.topic_id(tp.topic)), answer)
        if loss is not None:
            raise _lost(loss)


def _lost(loss: DataLoss) -> DataLoss:
    """Returns a loss of the query's end as the error of the query."""
    return type(loss)(f"{_LOST}: {loss.what}; {_ADVICE}", **loss.where)
