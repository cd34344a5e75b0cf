"""A cluster of brokers: it finds the broker for a request, connects, and retries after a move.

One Cluster belongs to one thread. It keeps a connection per broker, opened at first use.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from kfetch import codes
from kfetch.errors import BrokerError, ConnectionLost, WireError
from kfetch.model import (
    NO_EPOCH,
    READ_UNCOMMITTED,
    Broker,
    ClusterView,
    Leader,
    Topic,
    TopicPartition,
)
from kfetch.options import NetworkOptions
from kfetch.wire import messages
from kfetch.wire.connection import Connection
from kfetch.wire.messages import EpochEnd, ListedOffset
from kfetch.wire.retry import retrying

log = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A", ListedOffset, EpochEnd)
LeaderEpochs = Mapping[TopicPartition, int]
LeaderRequest = Callable[
    [Connection, Mapping[TopicPartition, int], LeaderEpochs, float], dict[TopicPartition, A] | None
]

_VIEWS_MAX = 5
# Several views confirm an answer that a caller has already. A black hole must not hold it up.
_VIEW_S = 2.0


class Cluster:
    """Metadata, offsets and epochs of a cluster, each from a broker that has them."""

    def __init__(self, bootstrap: tuple[tuple[str, int], ...], options: NetworkOptions) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._brokers: Mapping[int, Broker] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._rotation = 0
        self.give_up_at: float | None = None
        """The caller's deadline, if it is later than that of one request; for warnings."""
        self.on_answer: Callable[[ConnectionLost | None], None] = lambda cause: None
        """Gets None when a broker has answered, and the cause when no broker can be reached."""

    def view(self, topics: Iterable[str] | None, deadline: float) -> ClusterView:
        """Returns fresh metadata of these topics (None: all topics). Retries up to the deadline."""
        names = None if topics is None else sorted(topics)

        def attempt() -> ClusterView:
            self._rotation += 1
            return self._ask_any(
                lambda connection, until: messages.metadata(connection, names, until), deadline
            )

        action = "asking for metadata"
        view = retrying(action, attempt, self._options, deadline, self.give_up_at)
        self._brokers = view.brokers
        return view

    def views(self, topics: Iterable[str], deadline: float) -> Iterator[ClusterView]:
        """Yields the metadata of several brokers about these topics, without brokers that fail.

        One broker's metadata may be old, or may hide a topic. Five known brokers answer at most.
        """
        names = sorted(topics)
        for address in self._addresses()[:_VIEWS_MAX]:
            until = min(deadline, time.monotonic() + _VIEW_S)
            try:
                yield messages.metadata(self._connect(address, until), names, until)
            except (ConnectionLost, BrokerError, WireError) as cause:
                log.debug("asking a further broker for metadata: %s", cause.message)

    def may_have_changed(self, topic: Topic, deadline: float) -> bool:
        """Returns whether a topic may have changed: a broker says so, or no broker can answer.

        Then the caller asks for ``view``. The same broker answers it first, because another one may
        have older metadata.
        """
        self._rotation += 1
        try:
            changed = self._ask_any(
                lambda connection, until: messages.may_have_changed(connection, topic, until),
                deadline,
            )
        except (ConnectionLost, BrokerError, WireError):
            changed = True
        self._rotation -= changed
        return changed

    def offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        deadline: float,
        *,
        isolation_level: int = READ_UNCOMMITTED,
        leader_epochs: LeaderEpochs | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Returns each partition's offset at a timestamp, from its leader.

        ``timestamps``: milliseconds, or -1 for the latest offset, -2 for the earliest (KIP-79).
        ``isolation_level``: under READ_COMMITTED the latest offset is the last stable offset, else
        the high watermark.
        ``leader_epochs``: the newest known epochs. A leader of an earlier epoch is not asked.
        """
        request = partial(messages.list_offsets, isolation_level=isolation_level)
        answers = self._of_leaders(
            "listing offsets", request, timestamps, deadline, leader_epochs or {}
        )
        return {tp: answer for tp, answer in answers.items() if answer is not None}

    def epoch_ends(
        self,
        epochs: Mapping[TopicPartition, int],
        deadline: float,
        *,
        leader_epochs: LeaderEpochs | None = None,
    ) -> dict[TopicPartition, EpochEnd | None]:
        """Returns where each partition's records of an epoch end; None if its broker is too old.

        ``leader_epochs``: the newest known epochs. A leader of an earlier epoch is not asked.
        """
        action = "asking for epoch ends"
        return self._of_leaders(action, messages.epoch_ends, epochs, deadline, leader_epochs or {})

    def connection(self, broker: Broker, deadline: float) -> Connection:
        """Returns a connection to a broker: the last one if it is alive, else a new one."""
        return self._connect((broker.host, broker.port), deadline)

    def close(self) -> None:
        """Closes every connection."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _of_leaders(
        self,
        action: str,
        request: LeaderRequest[A],
        arguments: Mapping[TopicPartition, int],
        deadline: float,
        oldest_epochs: LeaderEpochs,
    ) -> dict[TopicPartition, A | None]:
        """Returns each leader's answer for its partitions. Retries the partitions that moved."""
        answers: dict[TopicPartition, A | None] = {}

        def attempt() -> dict[TopicPartition, A | None]:
            missing = {tp: value for tp, value in arguments.items() if tp not in answers}
            view = self.view({tp.topic for tp in missing}, deadline)
            leaders = _leaders(view, missing, oldest_epochs)
            epochs = {tp: leader.epoch for tp, leader in leaders.items()}
            for broker, of_broker in _by_leader(leaders, missing).items():
                # One slow broker must not use up the time for retries at the others.
                until = min(deadline, time.monotonic() + self._options.request_timeout_s)
                replied = request(self.connection(broker, until), of_broker, epochs, until)
                answers.update(_final_answers(action, broker, of_broker, replied))
            _check_complete(action, arguments, answers)
            return answers

        return retrying(action, attempt, self._options, deadline, self.give_up_at)

    def _ask_any(self, question: Callable[[Connection, float], T], deadline: float) -> T:
        """Returns the answer of the first reachable broker: connected, known, then bootstrap.

        Connected brokers take turns, because one with old metadata must not answer every time.
        """
        first_cause: ConnectionLost | None = None
        for address in self._addresses():
            until = min(deadline, time.monotonic() + self._options.request_timeout_s)
            try:
                answer = question(self._connect(address, until), until)
            except ConnectionLost as cause:
                first_cause = first_cause or cause
            else:
                self.on_answer(None)
                return answer
        first_cause = first_cause or ConnectionLost("no broker is known")
        self.on_answer(first_cause)
        raise first_cause

    def _addresses(self) -> list[tuple[str, int]]:
        connected = [key for key, connection in self._connections.items() if connection.alive]
        first = self._rotation % max(1, len(connected))
        connected = connected[first:] + connected[:first]
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        return list(dict.fromkeys([*connected, *known, *self._bootstrap]))

    def _connect(self, address: tuple[str, int], deadline: float) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.alive:
            connection = Connection.open(*address, self._options, deadline)
            self._connections[address] = connection
        return connection


def _leaders(
    view: ClusterView, partitions: Iterable[TopicPartition], oldest_epochs: LeaderEpochs
) -> dict[TopicPartition, Leader]:
    """Returns the leaders, without those that have a successor already."""
    leaders = {tp: leader for tp in partitions if (leader := view.leader(tp)) is not None}
    return {
        tp: leader
        for tp, leader in leaders.items()
        if not leader.is_older_than(oldest_epochs.get(tp, NO_EPOCH))
    }


def _by_leader(
    leaders: Mapping[TopicPartition, Leader], arguments: Mapping[TopicPartition, int]
) -> dict[Broker, dict[TopicPartition, int]]:
    grouped: dict[Broker, dict[TopicPartition, int]] = {}
    for tp, leader in leaders.items():
        grouped.setdefault(leader.broker, {})[tp] = arguments[tp]
    return grouped


def _final_answers(
    action: str,
    broker: Broker,
    requested: Iterable[TopicPartition],
    answers: Mapping[TopicPartition, A] | None,
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
            )
    return final


def _check_complete(
    action: str, requested: Iterable[TopicPartition], answers: Mapping[TopicPartition, object]
) -> None:
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
