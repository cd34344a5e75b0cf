"""Requests that only leaders can answer: who leads, and which answers are final."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from kfetch import codes, losses
from kfetch.errors import BrokerError
from kfetch.model import NO_EPOCH, Broker, ClusterView, Leader, TopicPartition
from kfetch.wire.messages import EpochEnd, ListedOffset
from kfetch.wire.timestamp_types import FirstBatch

A = TypeVar("A", ListedOffset, EpochEnd, FirstBatch)
LeaderEpochs = Mapping[TopicPartition, int]


class Absences:
    """Partitions that several brokers did not name, and since when.

    A partition is gone if they did not name it for ``losses.GONE_AFTER_S`` seconds.
    """

    def __init__(self) -> None:
        self._looks: dict[TopicPartition, tuple[float, float]] = {}
        """The first and the last look that did not find a partition (monotonic seconds)."""

    def gone(
        self, partitions: Collection[TopicPartition], view: ClusterView, now: float
    ) -> set[TopicPartition]:
        """Note which of ``partitions`` a view lacks. Return those that are gone.

        ``now``: monotonic seconds. Looks that lie further apart than ``GONE_AFTER_S`` do not count
        together, because the partition may have shown between them.
        """
        patience_s = losses.GONE_AFTER_S
        for tp in partitions:
            first, last = self._looks.pop(tp, (now, now))
            if not view.exists(tp):
                self._looks[tp] = (first if now - last <= patience_s else now), now
        return {
            tp for tp in partitions if tp in self._looks and now - self._looks[tp][0] >= patience_s
        }


def leaders_of(
    view: ClusterView, partitions: Iterable[TopicPartition], oldest_epochs: LeaderEpochs
) -> dict[TopicPartition, Leader]:
    """Returns the leaders, without those that have a successor already."""
    leaders = {tp: leader for tp in partitions if (leader := view.leader(tp)) is not None}
    return {
        tp: leader
        for tp, leader in leaders.items()
        if not leader.is_older_than(oldest_epochs.get(tp, NO_EPOCH))
    }


def by_leader(
    leaders: Mapping[TopicPartition, Leader], arguments: Mapping[TopicPartition, int]
) -> dict[Broker, dict[TopicPartition, int]]:
    """Returns each leader's partitions with their arguments."""
    grouped: dict[Broker, dict[TopicPartition, int]] = {}
    for tp, leader in leaders.items():
        grouped.setdefault(leader.broker, {})[tp] = arguments[tp]
    return grouped


def final_answers(
    action: str,
    broker: Broker,
    requested: Iterable[TopicPartition],
    answers: Mapping[TopicPartition, A] | None,
    user: str,
) -> dict[TopicPartition, A | None]:
    """Returns the answers without an error. None stands for a broker that is too old.

    It leaves out the partitions to ask for again. Raises BrokerError for a final error.
    """
    if answers is None:
        return dict.fromkeys(requested)
    final: dict[TopicPartition, A | None] = {}
    for tp, answer in answers.items():
        if answer.error == codes.NONE:
            final[tp] = answer
        elif not codes.retriable(answer.error):
            raise codes.error(
                answer.error,
                f"{action} of {tp} at {broker}",
                topic=tp.topic,
                partition=tp.partition,
                user=user,
            )
    return final


def check_complete(
    action: str, requested: Iterable[TopicPartition], answers: Mapping[TopicPartition, object]
) -> None:
    """Raises BrokerError for a partition without an answer; another look-up may have one."""
    missing = [tp for tp in requested if tp not in answers]
    if missing:
        first, others = missing[0], len(missing) - 1
        partitions = f"{first} and {others} more have" if others else f"{first} has"
        raise BrokerError(
            f"{action}: {partitions} no leader that answers",
            retriable=True,
            topic=first.topic,
            partition=first.partition,
        )
