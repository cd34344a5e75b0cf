"""The partitions that the broker's session holds, as far as it has acknowledged them.

Kept with two indexes so that nothing ever walks the session: the key that replies use for each
partition, and the number of partitions that have no topic id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from kfetch.model import NO_TOPIC_ID, FetchPosition, TopicPartition
from kfetch.session.values import FetchPlan, ReplyKey, SessionMisuse

Changes = Mapping[TopicPartition, FetchPosition | None]
"""What the caller wants changed; None: fetch this partition no more."""

_NAMED_IN_PROBLEM_MAX = 5


def reply_key(tp: TopicPartition, topic_id: UUID, uses_topic_ids: bool) -> ReplyKey:
    """The key by which a reply names ``tp``."""
    return (topic_id, tp.partition) if uses_topic_ids else (tp.topic, tp.partition)


def reply_keys(plan: FetchPlan) -> dict[ReplyKey, TopicPartition]:
    """The keys of the partitions that ``plan`` sends, in order."""
    return {
        reply_key(tp, position.topic_id, plan.uses_topic_ids): tp
        for tp, position in plan.send.items()
    }


class HeldPartitions:
    """Positions by partition, in the broker's order of arrival, and the indexes over them."""

    def __init__(self, *, uses_topic_ids: bool) -> None:
        self.positions: dict[TopicPartition, FetchPosition] = {}
        self.keys: dict[ReplyKey, TopicPartition] = {}
        self.without_id = 0
        self.uses_topic_ids = uses_topic_ids

    def news(self, changes: Changes) -> dict[TopicPartition, FetchPosition | None]:
        """The changes that are news to the broker, in the caller's order."""
        held = self.positions
        return {tp: wanted for tp, wanted in changes.items() if wanted != held.get(tp)}

    def count_after(self, news: Changes) -> tuple[int, int]:
        """How many partitions there are after ``news``, and how many of them lack a topic id."""
        total, without_id = len(self.positions), self.without_id
        for tp, wanted in news.items():
            held = self.positions.get(tp)
            total += (wanted is not None) - (held is not None)
            without_id += _lacks_id(wanted) - _lacks_id(held)
        return total, without_id

    def overlaid(self, news: Changes) -> dict[TopicPartition, FetchPosition]:
        """Everything wanted after ``news``: the held ones in order, then the new ones."""
        wanted = {**self.positions, **news}
        return {tp: position for tp, position in wanted.items() if position is not None}

    def forgets(self, news: Changes) -> Iterable[tuple[UUID, TopicPartition]]:
        """What to forget for ``news``: partitions given up, and old ids of re-created topics.

        Where topics are keyed by name a re-created topic is only sent. The broker adds before it
        forgets, so forgetting the name would take away what was just added.
        """
        for tp, wanted in news.items():
            held = self.positions.get(tp)
            if held is not None and (wanted is None or self._replaced(held, wanted)):
                yield held.topic_id, tp

    def _replaced(self, held: FetchPosition, wanted: FetchPosition) -> bool:
        return self.uses_topic_ids and held.topic_id != wanted.topic_id

    def commit(self, plan: FetchPlan) -> None:
        """The broker has acknowledged ``plan``."""
        if plan.full:
            self._clear(plan.uses_topic_ids)
        for _, tp in plan.forget:
            self._drop(tp)
        for tp, position in plan.send.items():
            self._put(tp, position)

    def _clear(self, uses_topic_ids: bool) -> None:
        self.positions.clear()
        self.keys.clear()
        self.without_id = 0
        self.uses_topic_ids = uses_topic_ids

    def _put(self, tp: TopicPartition, position: FetchPosition) -> None:
        self.without_id += _lacks_id(position) - _lacks_id(self.positions.get(tp))
        self.positions[tp] = position
        self.keys[reply_key(tp, position.topic_id, self.uses_topic_ids)] = tp

    def _drop(self, tp: TopicPartition) -> None:
        position = self.positions.pop(tp)
        self.without_id -= _lacks_id(position)
        del self.keys[reply_key(tp, position.topic_id, self.uses_topic_ids)]

    def check(self, plan: FetchPlan) -> None:
        """A topic id belongs to one name: two would make replies ambiguous."""
        sent = reply_keys(plan)
        known = {} if plan.full else self.keys
        if len(sent) < len(plan.send) or any(known.get(key, tp) != tp for key, tp in sent.items()):
            raise SessionMisuse("two topic names share one topic id")

    def resolve(
        self, plan: FetchPlan, replied: Collection[ReplyKey]
    ) -> tuple[dict[ReplyKey, TopicPartition], str]:
        """The partitions behind the keys of a reply to ``plan``, and what is wrong with them.

        A full reply names exactly what was sent; an incremental one any part of the session as it
        is after the plan (Kafka's FetchSessionHandler: verifyFullFetchResponsePartitions and
        verifyIncrementalFetchResponsePartitions).
        """
        sent = reply_keys(plan)
        others = {} if plan.full else self.keys
        told = {**self._gone(plan), **sent}
        known = ((key, told.get(key, others.get(key))) for key in replied)
        found = {key: tp for key, tp in known if tp is not None}
        omitted = [key for key in sent if key not in found] if plan.full else []
        extra = [key for key in replied if key not in found]
        return found, _problem(omitted, extra, {**others, **sent}) if omitted or extra else ""

    def _gone(self, plan: FetchPlan) -> dict[ReplyKey, TopicPartition | None]:
        ids = self.uses_topic_ids
        return {reply_key(tp, topic_id, ids): None for topic_id, tp in plan.forget}


def _lacks_id(position: FetchPosition | None) -> bool:
    return position is not None and position.topic_id == NO_TOPIC_ID


def _problem(
    omitted: Collection[ReplyKey], extra: Collection[ReplyKey], asked: Collection[ReplyKey]
) -> str:
    ids = {topic for topic, _ in asked}
    strange = [key for key in extra if isinstance(key[0], UUID) and key[0] not in ids]
    other = [key for key in extra if not isinstance(key[0], UUID) or key[0] in ids]
    lists = {"omitted": omitted, "extra": other, "extra topic ids": strange}
    told = "; ".join(f"{name}: {_listed(keys)}" for name, keys in lists.items() if keys)
    return f"the reply's partitions are not those asked for ({told})"


def _listed(keys: Collection[ReplyKey]) -> str:
    first = [f"{topic}-{index}" for topic, index in list(keys)[:_NAMED_IN_PROBLEM_MAX]]
    more = len(keys) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
