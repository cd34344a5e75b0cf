"""The partitions that one planning looks at: those that changed, and those with a backlog.

All partitions are candidates at a start, and when Spark names another start than the expected one.
Pure: sets from offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from kfetch.model import TopicPartition
from kfetch.offsets import Offsets, Positions


class Candidates:
    """The candidates of one query, and the start for which they are complete."""

    def __init__(self) -> None:
        self._partitions: set[TopicPartition] = set()
        self._complete_for: Offsets | None = None
        """The only start for which these are all partitions to look at."""
        self.lack_topic_ids = False
        """Whether the start lacks the id of a topic that the watch knows."""

    def add(self, partitions: Collection[TopicPartition]) -> None:
        """Look at these partitions, too."""
        self._partitions.update(partitions)

    def are_complete_for(self, start: Offsets) -> bool:
        """Returns whether no other partition can have news for a micro-batch from this start."""
        return start is self._complete_for or start == self._complete_for

    def expect(self, start: Offsets) -> None:
        """Note the start of the next planning."""
        self._complete_for = start

    def take_all(
        self, watched: Iterable[TopicPartition], start: Offsets, topic_ids: Mapping[str, UUID]
    ) -> None:
        """Look at every partition. ``topic_ids`` are those of the watch.

        A checkpoint of Spark's connector has no topic ids. It gets them at once.
        """
        self._partitions = {*watched, *start.positions}
        topics = {tp.topic for tp in start.positions}
        self.lack_topic_ids = any(n in topic_ids and n not in start.topic_ids for n in topics)

    def sorted_without(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Returns the others in order, so that the first partition's loss is reported first."""
        return sorted(self._partitions.difference(partitions))

    def keep(
        self,
        offsets: Offsets,
        reached: Positions,
        ends: Positions,
        exists: Callable[[TopicPartition], bool],
    ) -> None:
        """Keep those with a backlog, an unknown log end, or no position in the offsets."""
        self._partitions = {
            tp
            for tp in self._partitions
            if exists(tp)
            and (
                tp not in ends
                or tp not in offsets.positions
                or ends[tp].offset != reached[tp].offset
            )
        }
