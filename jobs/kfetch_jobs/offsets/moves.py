"""What a move changes: partitions from an offset to another, and what that means. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kfetch.model import TopicPartition
from kfetch_jobs.config.yamlfile import suggestion
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.offsets.target import PartitionOffsets, Target

__all__ = ["Move", "TopicChoice", "Verb", "chosen_partitions", "partition_move"]


class Verb(StrEnum):
    """What is asked for."""

    RESET = "reset"
    """The job goes on elsewhere, back or ahead. Its table is left alone."""
    REPLAY = "replay"
    """Rows come again, and the table has each once: partitions only go back, and what an append
    has written of them is deleted first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition. Offsets."""

    tp: TopicPartition
    before: int
    after: int
    limit: str = ""
    """Why it is not the offset that was wanted; empty if it is."""
    again: int
    """So many come again that the job has read."""
    skipped: int
    """So many are never read."""

    @property
    def moves(self) -> bool:
        """Whether it changes anything."""
        return self.before != self.after


def partition_move(verb: Verb, target: Target, stand: PartitionOffsets) -> Move:
    """Where one partition goes."""
    wanted = target(stand)
    if wanted is None or (verb is Verb.REPLAY and wanted > stand.before):
        wanted = stand.before
    after = min(max(wanted, stand.log_start), stand.log_end)
    return Move(
        tp=stand.tp,
        before=stand.before,
        after=after,
        limit=_limit(wanted, after),
        again=max(0, min(stand.before, stand.log_end) - after),
        skipped=max(0, after - max(stand.before, stand.log_start)),
    )


def _limit(wanted: int, after: int) -> str:
    if wanted == after:
        return ""
    return f"the log {'starts' if wanted < after else 'ends'} there, {wanted} is not in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """A topic, or some of its partitions."""

    topic: str
    partitions: frozenset[int] = frozenset()
    """None at all: every one."""

    @classmethod
    def of(cls, text: str) -> TopicChoice:
        """``clicks`` or ``clicks:0,3``"""
        topic, _, numbers = text.partition(":")
        try:
            return cls(
                topic=topic, partitions=frozenset(map(int, numbers.split(",") if numbers else ()))
            )
        except ValueError:
            raise ConfigError(
                f"--topic {text} names no partitions: write them as in {topic}:0,3"
            ) from None

    def has(self, tp: TopicPartition) -> bool:
        """Whether a partition is meant."""
        return tp.topic == self.topic and (not self.partitions or tp.partition in self.partitions)


def chosen_partitions(
    choices: Sequence[TopicChoice], known: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """The partitions that are meant; without a choice all. Raises ConfigError for unknown ones."""
    for choice in choices:
        _check(choice, known)
    return frozenset(tp for tp in known if not choices or _any_has(choices, tp))


def _any_has(choices: Iterable[TopicChoice], tp: TopicPartition) -> bool:
    return any(choice.has(tp) for choice in choices)


def _check(choice: TopicChoice, known: Collection[TopicPartition]) -> None:
    topics = {tp.topic for tp in known}
    if choice.topic not in topics:
        hint = suggestion(choice.topic, topics)
        raise ConfigError(f"--topic {choice.topic}: the job does not read it: {hint}")
    there = {tp.partition for tp in known if tp.topic == choice.topic}
    if missing := sorted(choice.partitions - there):
        raise ConfigError(
            f"--topic {choice.topic}: it has no partition {missing[0]}, the highest is {max(there)}"
        )
