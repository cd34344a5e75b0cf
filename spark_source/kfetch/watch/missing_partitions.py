"""Decides when a partition that metadata does not name is gone.

One broker's metadata may be old, and an ACL may hide a topic from it for a moment. So several
brokers are asked for the topic by its name. A partition that none of them names for
``losses.GONE_AFTER_S`` seconds is gone. Until then it is hidden: the watch keeps it, and the other
partitions do not wait. A topic was created again if all of these brokers name another id.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from uuid import UUID

from kfetch.losses import Absences
from kfetch.model import NO_TOPIC_ID, ClusterView, TopicPartition
from kfetch.watch.lookups import OffsetLookup

_PAUSE_S = 0.5


class MissingPartitions:
    """The partitions that metadata should name and does not, and since when."""

    def __init__(self, lookup: OffsetLookup) -> None:
        self._lookup = lookup
        self._absences = Absences()
        self.hidden: frozenset[TopicPartition] = frozenset()
        """Partitions that no broker names, and that may exist still."""

    def look(
        self,
        view: ClusterView,
        expected: Collection[TopicPartition],
        topic_ids: Mapping[str, UUID],
    ) -> ClusterView:
        """Returns fresh metadata, completed with the topics that other brokers know by these ids.

        ``expected``: the partitions that should exist. ``topic_ids``: the known ids of their
        topics. Sets ``hidden``.
        """
        now = time.monotonic()
        self._absences.forget_others(expected)  # one that was gone may return
        doubtful = [tp for tp in expected if not view.has(tp, topic_ids)]
        unsettled = [tp for tp in doubtful if not self._absences.is_gone(tp, now)]
        view = self._lookup.completed(view, unsettled, topic_ids)
        missing = {tp for tp in doubtful if self._is_missing(tp, view, topic_ids)}
        self._absences.note(expected, missing, now)
        self.hidden = frozenset(tp for tp in missing if not self._absences.is_gone(tp, now))
        return view

    def pause(self) -> None:
        """Wait between two looks, if nothing can go on before they have settled."""
        time.sleep(_PAUSE_S)

    def _is_missing(
        self, tp: TopicPartition, view: ClusterView, topic_ids: Mapping[str, UUID]
    ) -> bool:
        if view.exists(tp) or not self._lookup.is_subscribed(tp):
            return False
        topic, known_id = view.topics.get(tp.topic), topic_ids.get(tp.topic, NO_TOPIC_ID)
        return (
            topic is None or topic.topic_id == known_id or NO_TOPIC_ID in (topic.topic_id, known_id)
        )
