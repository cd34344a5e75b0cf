"""A cluster of brokers: it finds the broker for a request, connects, and retries after a move.

One Cluster belongs to one thread. It keeps a connection per broker, opened at first use.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar
from uuid import UUID

from kfetch import codes
from kfetch.errors import BrokerError, ConnectionLost, KfetchError, TlsFailed, WireError
from kfetch.model import (
    READ_UNCOMMITTED,
    Broker,
    ClusterView,
    Leader,
    Topic,
    TopicPartition,
)
from kfetch.options import NetworkOptions
from kfetch.wire import messages, timestamp_types
from kfetch.wire.addresses import has_fresh_address
from kfetch.wire.connection import Connection
from kfetch.wire.leaders import (
    A,
    Absences,
    LeaderEpochs,
    by_leader,
    check_complete,
    final_answers,
    leaders_of,
)
from kfetch.wire.messages import EpochEnd, ListedOffset
from kfetch.wire.retry import LASTING, retrying
from kfetch.wire.timestamp_types import FirstBatch

log = logging.getLogger(__name__)

T = TypeVar("T")
E = TypeVar("E", bound=KfetchError)
LeaderRequest = Callable[
    [Connection, Mapping[TopicPartition, int], LeaderEpochs, float], dict[TopicPartition, A] | None
]

_SHARE_MIN_S = 5.0
"""The least time for one of many servers, or half of what is left. The metadata of a large cluster
takes seconds."""
_ASKED_LAST_S = 30.0
_CAUSES_MAX = 20
"""Failures of one question. Beyond them, a name's other addresses are not tried any more."""
_VIEWS_MAX = 5
# Several views confirm an answer that a caller has already. Black holes must not hold it up.
_VIEWS_S = 3.0
_VIEW_MIN_S = 1.0
# One planning asks leaders three questions. Metadata of many partitions costs more than an answer.
_RECENT_S = 1.0


class Cluster:
    """Metadata, offsets and epochs of a cluster, each from a broker that has them."""

    def __init__(
        self,
        bootstrap: tuple[tuple[str, int], ...],
        options: NetworkOptions,
        *,
        patient: bool = True,
    ) -> None:
        """``patient``: whether to retry although all bootstrap servers are wrong listeners.

        Without patience the first question fails at once. A later one retries, because the cluster
        has answered before. Before the first answer, nobody has patience with certificates.
        """
        self._bootstrap = bootstrap
        self._options = options
        self._patient = patient
        self._answered = False
        self._leaders_proven = patient
        """Whether the driver, or this cluster, has reached leaders already."""
        self._brokers: Mapping[int, Broker] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._recent: tuple[ClusterView, float] | None = None
        """The last metadata, and when it came. A question that failed forgets it."""
        self._rotation = 0
        self._asked_last_until: dict[tuple[str, int], float] = {}
        """Addresses that did not answer, with the end of their time as the last ones."""
        self._absences = Absences()
        self.give_up_at: float | None = None
        """The caller's deadline, if it is later than that of one request; for warnings."""
        self.patience_reason = ""
        """Why the caller waits up to it; for warnings."""
        self.on_answer: Callable[[ConnectionLost | None], None] = lambda cause: None
        """Gets None when a broker has answered, and the cause when no broker can be reached."""

    def view(self, topics: Iterable[str] | None, deadline: float) -> ClusterView:
        """Returns fresh metadata of these topics (None: all topics). Retries up to the deadline."""
        names = None if topics is None else sorted(topics)

        def attempt() -> ClusterView:
            self._rotation += 1
            return self.ask_any(
                lambda connection, until: messages.metadata(connection, names, until), deadline
            )

        action = "asking for metadata"
        view = self._retrying(action, attempt, deadline)
        self._brokers = view.brokers
        self._recent = view, time.monotonic()
        self._close_former_addresses()
        return view

    def views(self, topics: Iterable[str], deadline: float) -> Iterator[ClusterView]:
        """Yields the metadata of several brokers about these topics, without brokers that fail.

        One broker's metadata may be old, or may hide a topic. Five known brokers answer at most,
        within three seconds in all.
        """
        names, addresses = sorted(topics), self._addresses()[:_VIEWS_MAX]
        end = min(deadline, time.monotonic() + _VIEWS_S)
        for position, address in enumerate(addresses):
            now = time.monotonic()
            if now >= end:
                return
            share_s = max(_VIEW_MIN_S, (end - now) / (len(addresses) - position))
            until = min(end, now + share_s)
            try:
                yield messages.metadata(self._connect(address, until), names, until)
            except (ConnectionLost, BrokerError, WireError) as cause:
                log.debug("asking a further broker for metadata: %s", cause.message)

    def unreadable(self, topics: Iterable[str], deadline: float) -> list[str]:
        """Returns a sentence for each of the topics that the user may describe and not read."""
        names = sorted(topics)
        if not names:
            return []
        return self.ask_any(
            lambda connection, until: messages.unreadable_topics(connection, names, until), deadline
        )

    def completed(
        self,
        view: ClusterView,
        partitions: Iterable[TopicPartition],
        topic_ids: Mapping[str, UUID],
        deadline: float,
    ) -> ClusterView:
        """Returns a view with the topics of ``partitions`` that it lacks and another broker has.

        ``topic_ids``: the known ids. A topic of another id counts as lacking.
        """
        missing = [tp for tp in partitions if not view.has(tp, topic_ids)]
        self._brokers = self._brokers or view.brokers  # the view may come from another cluster
        for other in self.views({tp.topic for tp in missing}, deadline) if missing else ():
            topics = {
                tp.topic: other.topics[tp.topic] for tp in missing if other.has(tp, topic_ids)
            }
            brokers = {**other.brokers, **view.brokers}
            view = ClusterView(brokers=brokers, topics={**view.topics, **topics})
            missing = [tp for tp in missing if not view.has(tp, topic_ids)]
            if not missing:
                break
        return view

    def may_have_changed(self, topic: Topic, deadline: float) -> bool:
        """Returns whether a topic may have changed: a broker says so, or no broker can answer.

        Then the caller asks for ``view``. The same broker answers it first, because another one may
        have older metadata.
        """
        self._rotation += 1
        try:
            changed = self.ask_any(
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

        Partitions that no broker names any more are left out, after ``losses.GONE_AFTER_S``.

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

        Partitions that no broker names any more are left out, after ``losses.GONE_AFTER_S``.
        ``leader_epochs``: the newest known epochs. A leader of an earlier epoch is not asked.
        """
        action = "asking for epoch ends"
        return self._of_leaders(action, messages.epoch_ends, epochs, deadline, leader_epochs or {})

    def first_batches(
        self, offsets: Mapping[TopicPartition, int], deadline: float
    ) -> dict[TopicPartition, FirstBatch | None]:
        """Returns what the first record batch at an offset of each partition says."""
        action, request = "reading a record batch", timestamp_types.first_batches
        return self._of_leaders(action, request, offsets, deadline, {})

    def connection(self, broker: Broker, deadline: float) -> Connection:
        """Returns a connection to a broker: the last one if it is alive, else a new one."""
        return self._connect((broker.host, broker.port), deadline)

    def close(self) -> None:
        """Closes every connection."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _retrying(self, action: str, attempt: Callable[[], T], deadline: float) -> T:
        until, reason = self.give_up_at, self.patience_reason
        return retrying(action, attempt, self._options, deadline, until, reason)

    def _forget_brokers(self) -> None:
        """Start again at the bootstrap servers: the known brokers are to be left (KIP-1102)."""
        self.close()
        self._brokers = {}

    def _of_leaders(
        self,
        action: str,
        request: LeaderRequest[A],
        arguments: Mapping[TopicPartition, int],
        deadline: float,
        oldest_epochs: LeaderEpochs,
    ) -> dict[TopicPartition, A | None]:
        """Returns each leader's answer for its partitions. Retries the partitions that moved.

        The driver's metadata may be older than a deletion. So a partition that is gone has no
        answer, and does not hold up the others for ever.
        """
        answers: dict[TopicPartition, A | None] = {}

        def attempt() -> dict[TopicPartition, A | None]:
            missing = {tp: value for tp, value in arguments.items() if tp not in answers}
            view, leaders = self._leaders(missing, oldest_epochs, deadline)
            recent, self._recent = self._recent, None  # after a failure, another try looks anew
            gone = self._absences.gone(missing, view, time.monotonic())
            epochs = {tp: leader.epoch for tp, leader in leaders.items()}
            for broker, of_broker in by_leader(leaders, missing).items():
                # One slow broker must not use up the time for retries at the others.
                until = min(deadline, time.monotonic() + self._options.request_timeout_s)
                connection = self._leader_connection(broker, until)
                replied = request(connection, of_broker, epochs, until)
                user = self._options.security.user
                answers.update(final_answers(action, broker, of_broker, replied, user))
            check_complete(action, arguments.keys() - gone, answers)
            self._leaders_proven = True
            self._recent = recent
            return answers

        return self._retrying(action, attempt, deadline)

    def _leaders(
        self, partitions: Collection[TopicPartition], oldest_epochs: LeaderEpochs, deadline: float
    ) -> tuple[ClusterView, dict[TopicPartition, Leader]]:
        """Returns metadata and the leaders: by recent metadata if it names all, else by fresh."""
        if self._recent and time.monotonic() - self._recent[1] < _RECENT_S:
            view = self._recent[0]
            leaders = leaders_of(view, partitions, oldest_epochs)
            if len(leaders) == len(partitions):
                return view, leaders
        view = self.view({tp.topic for tp in partitions}, deadline)
        view = self.completed(view, partitions, {}, deadline)
        return view, leaders_of(view, partitions, oldest_epochs)

    def _leader_connection(self, broker: Broker, deadline: float) -> Connection:
        """Returns a connection to a leader. While the query starts, TlsFailed is final.

        Brokers often have certificates for their bootstrap names, and not for those of the leaders.
        """
        try:
            return self.connection(broker, deadline)
        except TlsFailed as cause:
            raise cause if self._leaders_proven else _final(cause) from None

    def ask_any(self, question: Callable[[Connection, float], T], deadline: float) -> T:
        """Returns the answer of the first reachable broker: connected, known, then bootstrap.

        Brokers take turns, because one with old metadata must not answer every time. The
        servers share the time: one that accepts connections and never answers costs its share
        once, and is asked last for half a minute.
        """
        try:
            answer = self._first_answer(question, deadline)
        except ConnectionLost as cause:
            self.on_answer(cause)
            raise
        self._patient = self._answered = True
        self.on_answer(None)
        return answer

    def _first_answer(self, question: Callable[[Connection, float], T], deadline: float) -> T:
        causes: list[ConnectionLost | BrokerError] = []
        addresses = self._addresses()
        while addresses:
            until, address = self._share_end(deadline, len(addresses)), addresses.pop(0)
            try:
                return question(self._connect(address, until), until)
            except ConnectionLost as cause:
                causes.append(cause)
                now = time.monotonic()
                # One address of a name may be a wrong listener. It comes last now.
                more = now < deadline and len(causes) < _CAUSES_MAX
                if more and isinstance(cause, LASTING) and has_fresh_address(*address):
                    addresses.insert(0, address)
                else:
                    self._asked_last_until[address] = now + _ASKED_LAST_S
            except BrokerError as cause:
                if cause.where.get("code") != codes.REBOOTSTRAP_REQUIRED:
                    raise
                causes.append(cause)
                self._forget_brokers()
                addresses = [key for key in addresses if key in self._bootstrap]
        raise self._no_answer(causes)

    def _share_end(self, deadline: float, servers: int) -> float:
        """Returns when to give up one server, if ``servers`` share the time up to the deadline."""
        now = time.monotonic()
        left_s = deadline - now
        share_s = left_s if servers == 1 else max(left_s / servers, min(_SHARE_MIN_S, left_s / 2))
        return min(deadline, now + min(share_s, self._options.request_timeout_s))

    def _no_answer(
        self, causes: list[ConnectionLost | BrokerError]
    ) -> ConnectionLost | BrokerError:
        """Returns the error for a question that no server answers: the clearest of its causes."""
        if not causes:
            return ConnectionLost("no broker is known")
        lasting = [cause for cause in causes if isinstance(cause, LASTING)]
        if not lasting:
            return causes[0]
        hopeless = not self._answered and all(isinstance(cause, TlsFailed) for cause in lasting)
        if len(lasting) < len(causes) or (self._patient and not hopeless):
            return lasting[0]
        return _final(lasting[0])

    def _addresses(self) -> list[tuple[str, int]]:
        connected = [key for key, connection in self._connections.items() if connection.alive]
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        turns = [*self._rotated(connected), *self._rotated(known)]
        addresses = dict.fromkeys([*turns, *self._bootstrap])
        now, last_until = time.monotonic(), self._asked_last_until
        return sorted(addresses, key=lambda address: last_until.get(address, now) > now)

    def _rotated(self, addresses: list[tuple[str, int]]) -> list[tuple[str, int]]:
        first = self._rotation % max(1, len(addresses))
        return addresses[first:] + addresses[:first]

    def _close_former_addresses(self) -> None:
        """Close connections to addresses that no broker has any more."""
        current = {(broker.host, broker.port) for broker in self._brokers.values()}
        for address in self._connections.keys() - current - {*self._bootstrap}:
            self._connections.pop(address).close()

    def _connect(self, address: tuple[str, int], deadline: float) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.alive:
            connection = Connection.open(*address, self._options, deadline)
            self._connections[address] = connection
        return connection


def _final(cause: E) -> E:
    """Returns the same error, which is not to be retried."""
    return type(cause)(cause.what, action=cause.action, **{**cause.where, "retriable": False})
