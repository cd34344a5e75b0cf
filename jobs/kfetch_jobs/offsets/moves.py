"""The move of a partition from one offset to another, and its effect: pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kfetch.model import TopicPartition
from kfetch_jobs.config.yamlfile import suggestion
from kfetch_jobs.errors import ConfigError
from kfetch_jobs.offsets.target import MoveTarget, PartitionOffsets


class Verb(StrEnum):
    """The kind of move."""

    RESET = "reset"
    """The job goes on at another offset, back or ahead. Its table does not change."""
    REPLAY = "replay"
    """The job reads records again, and the table has each once. Partitions only go back, and kfetch
    first deletes the rows that an append has written of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The move of one partition, in offsets."""

    tp: TopicPartition
    before: int
    after: int
    limit: str = ""
    """Why ``after`` is not the target offset; empty if it is."""
    reread: int
    """The number of offsets that the job reads again."""
    skipped: int
    """The number of offsets that the job never reads."""

    @property
    def moves(self) -> bool:
        """Whether the partition changes its offset."""
        return self.before != self.after


def margin(log_start: int, log_end: int, percent: int) -> int:
    """Returns how many offsets at the log's start a replay leaves alone: they may be gone soon.

    A log that still starts at 0 has lost nothing so far, and has no margin.
    """
    return 0 if log_start == 0 else -(-(log_end - log_start) * percent // 100)


def partition_move(
    verb: Verb, target: MoveTarget, offsets: PartitionOffsets, margin_percent: int = 0
) -> Move:
    """Returns the move of one partition. It stays within the log, a replay also off its margin."""
    goal = target.offset(offsets)
    if goal is None or (verb is Verb.REPLAY and goal > offsets.before):
        goal = offsets.before
    lowest = offsets.log_start
    if verb is Verb.REPLAY:
        lowest += margin(offsets.log_start, offsets.log_end, margin_percent)
        lowest = max(min(lowest, offsets.before), offsets.log_start)
    after = min(max(goal, lowest), offsets.log_end)
    return Move(
        tp=offsets.tp,
        before=offsets.before,
        after=after,
        limit=_limit(goal, after, offsets.log_start),
        reread=max(0, min(offsets.before, offsets.log_end) - after),
        skipped=max(0, after - max(offsets.before, offsets.log_start)),
    )


def _limit(goal: int, after: int, log_start: int) -> str:
    if goal == after:
        return ""
    if log_start <= goal < after:
        return f"{goal} may be gone soon, the log starts at {log_start}: the rows before stay"
    return f"the log {'starts' if goal < after else 'ends'} there, {goal} is not in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChoice:
    """A topic, or some of its partitions, as ``--topic`` names them."""

    topic: str
    partitions: frozenset[int] = frozenset()
    """Empty: every partition."""

    @classmethod
    def of(cls, text: str) -> TopicChoice:
        """Parse ``clicks`` or ``clicks:0,3``. Raises ConfigError for other texts."""
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
        """Returns whether the choice includes a partition."""
        return tp.topic == self.topic and (not self.partitions or tp.partition in self.partitions)


def chosen_partitions(
    choices: Sequence[TopicChoice], known: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """Returns the chosen partitions; without a choice all. Raises ConfigError for unknown ones."""
    for choice in choices:
        _check(choice, known)
    return frozenset(tp for tp in known if not choices or any(one.has(tp) for one in choices))


def _check(choice: TopicChoice, known: Collection[TopicPartition]) -> None:
    topics = {tp.topic for tp in known}
    if choice.topic not in topics:
        hint = suggestion(choice.topic, topics)
        raise ConfigError(f"--topic {choice.topic}: the job does not read it: {hint}")
    existing = {tp.partition for tp in known if tp.topic == choice.topic}
    if missing := sorted(choice.partitions - existing):
        raise ConfigError(
            f"--topic {choice.topic}: it has no partition {missing[0]}, the highest is "
            f"{max(existing)}"
        )
