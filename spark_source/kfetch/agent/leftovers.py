"""Records that came along beyond a range's end: kept for the next micro-batch of this executor.

The broker was asked for a position, not for an end, so a reply as a rule holds records behind the
range. They are copied out of the reply, last as long as the budget has room, and go oldest first.
They answer a later range only if topic id and leader epoch are still the ones they were read under:
then a fetch would bring the same records. Where brokers tell neither (before Kafka 2.8 there are no
topic ids), nothing proves that, and nothing is kept. Belongs to one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from kfetch.agent.budget import Budget, Reservation
from kfetch.fetch.progress import RangeProgress
from kfetch.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition
from kfetch.records import batches_from, extent
from kfetch.replies import PartitionReply


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    partition: PartitionReply
    start: int
    end: int
    """Exclusive: the first offset that the records don't reach."""
    topic_id: UUID
    leader_epoch: int

    def answers(self, progress: RangeProgress) -> bool:
        """Whether a fetch at the position of ``progress`` would bring these records."""
        return (
            self.start <= progress.offset < self.end
            and self.topic_id == progress.range.topic_id
            and self.leader_epoch == progress.leader_epoch
        )


class Leftovers:
    """What one session's replies had to spare, at most one piece per partition."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def keep(self, progress: RangeProgress, partition: PartitionReply) -> None:
        """Keep what lies behind the end of a range that is done, unless memory is short."""
        end, topic_id = progress.range.end, progress.range.topic_id
        if topic_id == NO_TOPIC_ID or progress.leader_epoch == NO_EPOCH:
            return
        # An aborted transaction ends with its marker, which lies before the tail perhaps.
        spare = partition.records if partition.aborted else batches_from(partition.records, end)
        reach = extent(spare, end).next_offset
        if reach <= end or self._budget.short:
            return
        kept = _Kept(
            partition=replace(partition, records=memoryview(bytes(spare))),
            start=end,
            end=reach,
            topic_id=topic_id,
            leader_epoch=progress.leader_epoch,
        )
        self._budget.keep(self._key(progress), len(spare), kept)

    def take(self, progress: RangeProgress) -> tuple[PartitionReply, Reservation] | None:
        """What was kept for a range that begins now; whatever else of its partition was is gone."""
        found = self._budget.take_back(self._key(progress))
        if found is None:
            return None
        kept, reservation = found
        if isinstance(kept, _Kept) and kept.answers(progress):
            return kept.partition, reservation
        reservation.release()
        return None

    def close(self) -> None:
        """Keep nothing any longer."""
        self._budget.drop(self)

    def _key(self, progress: RangeProgress) -> tuple[Leftovers, TopicPartition]:
        return self, progress.tp
