"""Caches records beyond a range's end for the next micro-batch of this executor.

A request names a position and no end, so most replies hold records beyond the range. They are
copied out of the reply and cached while the budget has room. The oldest are dropped first.

Cached records answer a later range only under the same topic id and the same leader epoch. Then a
fetch would bring the same records. Where brokers send no topic ids (before Kafka 2.8) or no
epochs, nothing proves that, and nothing is cached. A ReadAhead belongs to one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from kfetch.agent.budget import Budget, Reservation
from kfetch.decoding import batches_from, extent
from kfetch.fetch.progress import RangeProgress
from kfetch.model import NO_EPOCH, NO_TOPIC_ID, TopicPartition
from kfetch.session.replies import PartitionReply


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedRecords:
    partition: PartitionReply
    start: int
    end: int
    """Exclusive: the offset behind the last complete batch."""
    topic_id: UUID
    leader_epoch: int

    def answer(self, progress: RangeProgress) -> bool:
        """Whether a fetch at the position of ``progress`` would bring these records."""
        return (
            self.start <= progress.offset < self.end
            and self.topic_id == progress.range.topic_id
            and self.leader_epoch == progress.leader_epoch
        )


class ReadAhead:
    """The cached records of one broker's replies, at most one piece per partition."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def store(self, progress: RangeProgress, partition: PartitionReply) -> None:
        """Cache the records beyond the end of a range that is done, unless memory is short."""
        end, topic_id = progress.range.end, progress.range.topic_id
        if topic_id == NO_TOPIC_ID or progress.leader_epoch == NO_EPOCH:
            return
        # The marker of an aborted transaction may lie before the tail, so keep all of the records.
        records = partition.records if partition.aborted else batches_from(partition.records, end)
        records_end = extent(records, end).next_offset
        if records_end <= end or self._budget.has_waiters:
            return
        cached = _CachedRecords(
            partition=replace(partition, records=memoryview(bytes(records))),
            start=end,
            end=records_end,
            topic_id=topic_id,
            leader_epoch=progress.leader_epoch,
        )
        self._budget.cache(self._key(progress), len(records), cached)

    def take(self, progress: RangeProgress) -> tuple[PartitionReply, Reservation] | None:
        """Remove the cached records of a partition; None if they don't answer this new range.

        Returns the records as the partition's reply, and a reservation of their memory.
        """
        entry = self._budget.take_cached(self._key(progress))
        if entry is None:
            return None
        cached, reservation = entry
        if isinstance(cached, _CachedRecords) and cached.answer(progress):
            return cached.partition, reservation
        reservation.release()
        return None

    def close(self) -> None:
        """Drop everything."""
        self._budget.drop_cached(self)

    def _key(self, progress: RangeProgress) -> tuple[ReadAhead, TopicPartition]:
        return self, progress.tp
