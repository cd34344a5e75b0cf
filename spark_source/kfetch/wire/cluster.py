"""A cluster to ask: which broker knows, a connection to it, and another try when it moved.

One Cluster belongs to one thread. It keeps a connection per broker, opened when first needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from kfetch import codes
from kfetch.errors import BrokerError, ConnectionLost, WireError
from kfetch.model import READ_UNCOMMITTED, Broker, ClusterView, Topic, TopicPartition
from kfetch.options import NetworkOptions
from kfetch.wire import messages
from kfetch.wire.connection import Connection
from kfetch.wire.messages import EpochEnd, OffsetAt
from kfetch.wire.retry import retrying

T = TypeVar("T")
A = TypeVar("A", OffsetAt, EpochEnd)
Ask = Callable[[Connection, Mapping[TopicPartition, int], float], dict[TopicPartition, A] | None]


class Cluster:
    """Metadata, offsets and epochs of a cluster, from whichever broker has them."""

    def __init__(self, bootstrap: tuple[tuple[str, int], ...], options: NetworkOptions) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._brokers: Mapping[int, Broker] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._turns = 0
        self.give_up_at: float | None = None
        """When who asks does, if that is later than the deadline of one question; for warnings."""

    def view(self, topics: Iterable[str] | None, deadline: float) -> ClusterView:
        """Brokers and topics, freshly asked (None: all topics). Retries up to the deadline."""
        names = None if topics is None else sorted(topics)

        def attempt() -> ClusterView:
            self._turns += 1
            return self._ask_any(lambda to, until: messages.metadata(to, names, until), deadline)

        what = "asking for metadata"
        view = retrying(what, attempt, self._options, deadline, self.give_up_at)
        self._brokers = view.brokers
        return view

    def may_have_changed(self, topic: Topic, deadline: float) -> bool:
        """Whether a topic is not as it was, or no broker can tell: then ``view`` does, or says
        what is wrong. It is the same broker's turn then: another one may lag behind."""
        self._turns += 1
        try:
            changed = self._ask_any(
                lambda to, until: messages.may_have_changed(to, topic, until), deadline
            )
        except (ConnectionLost, BrokerError, WireError):
            changed = True
        self._turns -= changed
        return changed

    def offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        deadline: float,
        *,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAt]:
        """Each partition's offset at a time (-1 latest, -2 earliest; KIP-79), of its leader.

        The latest is the high watermark, or with ``committed`` the last stable offset.
        """
        ask = partial(messages.list_offsets, isolation_level=isolation_level)
        found = self._of_leaders("listing offsets", ask, wanted, deadline)
        return {tp: answer for tp, answer in found.items() if answer is not None}

    def epoch_ends(
        self, wanted: Mapping[TopicPartition, int], deadline: float
    ) -> dict[TopicPartition, EpochEnd | None]:
        """Where each partition's records of an epoch end; None where the broker is too old."""
        return self._of_leaders("asking for epoch ends", messages.epoch_ends, wanted, deadline)

    def connection(self, broker: Broker, deadline: float) -> Connection:
        """A living connection to a broker."""
        return self._connect((broker.host, broker.port), deadline)

    def close(self) -> None:
        """Close every connection."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _of_leaders(
        self, what: str, ask: Ask[A], wanted: Mapping[TopicPartition, int], deadline: float
    ) -> dict[TopicPartition, A | None]:
        """Ask every partition's leader; ask anew those that moved, until all have answered."""
        found: dict[TopicPartition, A | None] = {}

        def attempt() -> dict[TopicPartition, A | None]:
            missing = {tp: value for tp, value in wanted.items() if tp not in found}
            view = self.view({tp.topic for tp in missing}, deadline)
            for broker, part in _by_leader(view, missing).items():
                # One broker that is slow must not eat the time of the others' retries.
                until = min(deadline, time.monotonic() + self._options.request_timeout_s)
                answers = ask(self.connection(broker, until), part, until)
                found.update(_settled(what, broker, part, answers))
            _check_complete(what, wanted, found)
            return found

        return retrying(what, attempt, self._options, deadline, self.give_up_at)

    def _ask_any(self, question: Callable[[Connection, float], T], deadline: float) -> T:
        """What the first broker that can be asked says: connected ones, known ones, bootstrap.

        The connected ones by turns: one that lags behind must not be the only voice.
        """
        first: ConnectionLost | None = None
        for address in self._addresses():
            until = min(deadline, time.monotonic() + self._options.request_timeout_s)
            try:
                return question(self._connect(address, until), until)
            except ConnectionLost as cause:
                first = first or cause
        raise first or ConnectionLost("no broker is known")

    def _addresses(self) -> list[tuple[str, int]]:
        connected = [key for key, connection in self._connections.items() if connection.alive]
        turn = self._turns % max(1, len(connected))
        connected = connected[turn:] + connected[:turn]
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        return list(dict.fromkeys([*connected, *known, *self._bootstrap]))

    def _connect(self, address: tuple[str, int], deadline: float) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.alive:
            connection = Connection.open(*address, self._options, deadline)
            self._connections[address] = connection
        return connection


def _by_leader(
    view: ClusterView, wanted: Mapping[TopicPartition, int]
) -> dict[Broker, dict[TopicPartition, int]]:
    grouped: dict[Broker, dict[TopicPartition, int]] = {}
    for tp, value in wanted.items():
        leader = view.leader(tp)
        if leader is not None:
            grouped.setdefault(leader.broker, {})[tp] = value
    return grouped


def _settled(
    what: str,
    broker: Broker,
    asked: Mapping[TopicPartition, int],
    answers: Mapping[TopicPartition, A] | None,
) -> dict[TopicPartition, A | None]:
    """The answers that stand; the ones to ask again are left out. Raises for final errors."""
    if answers is None:
        return dict.fromkeys(asked)
    settled: dict[TopicPartition, A | None] = {}
    for tp, answer in answers.items():
        if answer.error == codes.NONE:
            settled[tp] = answer
        elif not codes.retriable(answer.error):
            raise codes.error(
                answer.error,
                f"{what} of {tp} at {broker}",
                topic=tp.topic,
                partition=tp.partition,
            )
    return settled


def _check_complete(
    what: str, wanted: Iterable[TopicPartition], found: Mapping[TopicPartition, object]
) -> None:
    missing = [tp for tp in wanted if tp not in found]
    if missing:
        raise BrokerError(
            f"{what}: {missing[0]} and {len(missing) - 1} more have no leader that answers"
            if len(missing) > 1
            else f"{what}: {missing[0]} has no leader that answers",
            retriable=True,
            topic=missing[0].topic,
            partition=missing[0].partition,
        )
