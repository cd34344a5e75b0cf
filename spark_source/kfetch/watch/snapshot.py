"""Where an AvailableNow query ends: the log ends of its first look-up, kept to the end.

What vanishes or shrinks below its end while the query reads is an error whatever failOnDataLoss
says, as in Spark's connector: the query was promised an end that it can't reach any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from kfetch.errors import DataLoss, OffsetBeyondLog, PartitionGone
from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Position
from kfetch.watch.log import Log
from kfetch.watch.loss import LossPolicy
from kfetch.watch.watch import Watch

_WHILE = "lost while an AvailableNow query was reading"
_ADVICE = "start the query again to read what is left"


class Snapshot:
    """The promised ends."""

    def __init__(
        self,
        ends: Mapping[TopicPartition, Position],
        topic_ids: Mapping[str, UUID],
        source: Log,
        watch: Watch,
    ) -> None:
        self._promised = Offsets(positions=ends, topic_ids=topic_ids)
        self._watch = watch
        self._policy = LossPolicy(source, watch, fail=True)

    def ends(self, candidates: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """The promised ends of some partitions; new ones are none of this query.

        Raises PartitionGone, TopicRecreated, LogTruncated, OffsetBeyondLog.
        """
        promised = self._promised.only(candidates)
        gone = sorted(str(tp) for tp in promised.positions if not self._watch.exists(tp))
        if gone:
            raise PartitionGone(
                f"{', '.join(gone)}: {_WHILE} them; {_ADVICE}",
                partitions=gone,
            )
        self._check_epochs(promised)
        for tp, position in promised.positions.items():
            self._check_end(tp, position)
        return dict(promised.positions)

    def _check_epochs(self, promised: Offsets) -> None:
        """Ask those leaders that came after the promise whether they have its records."""
        suspect = [
            tp
            for tp, position in promised.positions.items()
            if (leader := self._watch.leader(tp)) and leader.epoch != position.leader_epoch
        ]
        if not suspect:
            return
        try:
            self._policy.sound(promised.only(suspect))
        except DataLoss as loss:
            raise type(loss)(f"{_WHILE}: {loss.message}; {_ADVICE}", **loss.where) from None

    def _check_end(self, tp: TopicPartition, position: Position) -> None:
        end = self._watch.end(tp)
        if end is not None and end.offset < position.offset:
            raise OffsetBeyondLog(
                f"{tp} was to be read up to offset {position.offset}, but its log ends at "
                f"{end.offset} now: {_WHILE} it; {_ADVICE}",
                topic=tp.topic,
                partition=tp.partition,
                offset=position.offset,
                high_watermark=end.offset,
            )
