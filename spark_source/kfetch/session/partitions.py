"""The partitions that the broker's session holds, as far as the broker has acknowledged them.

Two indexes make sure that no call walks the whole session: the key that replies use for each
partition, and the number of partitions without a topic id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from kfetch.model import NO_TOPIC_ID, FetchPosition, TopicPartition
from kfetch.session.plan import FetchPlan, SessionUsageError
from kfetch.session.replies import ReplyKey

Changes = Mapping[TopicPartition, FetchPosition | None]
"""The positions that the caller changes. None removes the partition from the session."""

_NAMED_IN_PROBLEM_MAX = 5


def reply_key(tp: TopicPartition, topic_id: UUID, uses_topic_ids: bool) -> ReplyKey:
    """Returns the key by which a reply names ``tp``."""
    return (topic_id, tp.partition) if uses_topic_ids else (tp.topic, tp.partition)


def reply_keys(plan: FetchPlan) -> dict[ReplyKey, TopicPartition]:
    """Returns the keys of the partitions that ``plan`` sends, in order."""
    return {
        reply_key(tp, position.topic_id, plan.uses_topic_ids): tp
        for tp, position in plan.send.items()
    }


class SessionPartitions:
    """Positions by partition, in the order in which the broker got them, and their indexes."""

    def __init__(self, *, uses_topic_ids: bool) -> None:
        self.positions: dict[TopicPartition, FetchPosition] = {}
        self.keys: dict[ReplyKey, TopicPartition] = {}
        self.without_id_count = 0
        self.uses_topic_ids = uses_topic_ids
        self.omitted: tuple[TopicPartition, ...] = ()
        """Partitions that the reply to the full request left out, until a request names them."""

    def unsent(self, changes: Changes) -> dict[TopicPartition, FetchPosition | None]:
        """Returns the omitted partitions, and the changes that the broker does not know yet.

        The changes are in the caller's order.
        """
        positions = self.positions
        unsent: dict[TopicPartition, FetchPosition | None]
        unsent = {tp: positions[tp] for tp in self.omitted}
        for tp, change in changes.items():
            if change != positions.get(tp):
                unsent[tp] = change
        return unsent

    def count_after(self, changes: Changes) -> tuple[int, int]:
        """Returns the number of partitions after ``changes``, and how many lack a topic id."""
        count, without_id_count = len(self.positions), self.without_id_count
        for tp, change in changes.items():
            current = self.positions.get(tp)
            count += (change is not None) - (current is not None)
            without_id_count += _lacks_id(change) - _lacks_id(current)
        return count, without_id_count

    def merged(self, changes: Changes) -> dict[TopicPartition, FetchPosition]:
        """Returns every position after ``changes``: the session's in its order, then new ones."""
        positions = {**self.positions, **changes}
        return {tp: position for tp, position in positions.items() if position is not None}

    def to_forget(self, changes: Changes) -> Iterable[tuple[UUID, TopicPartition]]:
        """Yields the partitions to forget: removed ones, and old ids of re-created topics.

        Where topics are keyed by name, the plan only sends a re-created topic. The broker adds
        before it forgets, so forgetting the name would remove the partition just added.
        """
        for tp, change in changes.items():
            current = self.positions.get(tp)
            if current is not None and (change is None or self._has_new_id(current, change)):
                yield current.topic_id, tp

    def _has_new_id(self, current: FetchPosition, change: FetchPosition) -> bool:
        return self.uses_topic_ids and current.topic_id != change.topic_id

    def commit(self, plan: FetchPlan, replied: Collection[TopicPartition]) -> None:
        """Applies a plan that the broker has acknowledged.

        ``replied``: the partitions of the reply. The next request of the session names those that
        it lacks again, if the plan is full. An incremental request names all that were omitted.
        """
        self.omitted = tuple(tp for tp in plan.send if tp not in replied) if plan.full else ()
        if plan.full:
            self._clear(plan.uses_topic_ids)
        for _, tp in plan.forget:
            self._remove(tp)
        for tp, position in plan.send.items():
            self._put(tp, position)

    def _clear(self, uses_topic_ids: bool) -> None:
        self.positions.clear()
        self.keys.clear()
        self.without_id_count = 0
        self.uses_topic_ids = uses_topic_ids

    def _put(self, tp: TopicPartition, position: FetchPosition) -> None:
        self.without_id_count += _lacks_id(position) - _lacks_id(self.positions.get(tp))
        self.positions[tp] = position
        self.keys[reply_key(tp, position.topic_id, self.uses_topic_ids)] = tp

    def _remove(self, tp: TopicPartition) -> None:
        position = self.positions.pop(tp)
        self.without_id_count -= _lacks_id(position)
        del self.keys[reply_key(tp, position.topic_id, self.uses_topic_ids)]

    def check_keys(self, plan: FetchPlan) -> None:
        """Raises SessionUsageError if two topic names share a topic id: replies are ambiguous."""
        sent = reply_keys(plan)
        keys = {} if plan.full else self.keys
        if len(sent) < len(plan.send) or any(keys.get(key, tp) != tp for key, tp in sent.items()):
            raise SessionUsageError("two topic names share one topic id")

    def match_reply(
        self, plan: FetchPlan, replied: Collection[ReplyKey]
    ) -> tuple[dict[ReplyKey, TopicPartition], str]:
        """Returns the partition behind each key of a reply to ``plan``, and any mismatch.

        A reply names partitions of the session as it is after the plan. Java's FetchSessionHandler
        has the same check: verifyIncrementalFetchResponsePartitions. Java also refuses a full reply
        that omits a partition (verifyFullFetchResponsePartitions). kfetch refuses one that omits
        all of them, because franz-go's kfake omits those for which a reply has no room.
        """
        sent = reply_keys(plan)
        others = {} if plan.full else self.keys
        changed = {**self._forgotten_keys(plan), **sent}
        partitions: dict[ReplyKey, TopicPartition] = {}
        for key in replied:
            tp = changed.get(key, others.get(key))
            if tp is not None:
                partitions[key] = tp
        omitted = sent if plan.full and not partitions else ()
        extra = [key for key in replied if key not in partitions]
        if not omitted and not extra:
            return partitions, ""
        return partitions, _mismatch(omitted, extra, {**others, **sent})

    def _forgotten_keys(self, plan: FetchPlan) -> dict[ReplyKey, TopicPartition | None]:
        ids = self.uses_topic_ids
        return {reply_key(tp, topic_id, ids): None for topic_id, tp in plan.forget}


def _lacks_id(position: FetchPosition | None) -> bool:
    return position is not None and position.topic_id == NO_TOPIC_ID


def _mismatch(
    omitted: Collection[ReplyKey], extra: Collection[ReplyKey], requested: Collection[ReplyKey]
) -> str:
    ids = {topic for topic, _ in requested}
    unknown_ids = [key for key in extra if isinstance(key[0], UUID) and key[0] not in ids]
    others = [key for key in extra if not isinstance(key[0], UUID) or key[0] in ids]
    lists = {"omitted": omitted, "extra": others, "extra topic ids": unknown_ids}
    text = "; ".join(f"{name}: {_listed(keys)}" for name, keys in lists.items() if keys)
    return f"the reply's partitions are not those asked for ({text})"


def _listed(keys: Collection[ReplyKey]) -> str:
    first = [f"{topic}-{index}" for topic, index in list(keys)[:_NAMED_IN_PROBLEM_MAX]]
    more = len(keys) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
