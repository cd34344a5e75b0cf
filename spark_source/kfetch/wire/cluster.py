"""A cluster to ask: metadata, and what only leaders know. It asks again after a move.

One Cluster belongs to one thread. ``servers`` says whom it asks, and ``retry`` how often.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar
from uuid import UUID

from kfetch import codes, losses
from kfetch.errors import BrokerError, ConnectionLost, TlsFailed, WireError
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
from kfetch.wire.addresses import Address
from kfetch.wire.connection import Connection
from kfetch.wire.messages import EpochEnd, ListedOffset
from kfetch.wire.retry import Retries, Round
from kfetch.wire.servers import Servers, not_retriable

log = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A", ListedOffset, EpochEnd)
LeaderEpochs = Mapping[TopicPartition, int]
LeaderRequest = Callable[
    [Connection, Mapping[TopicPartition, int], LeaderEpochs, float], dict[TopicPartition, A] | None
]

_VIEWS_MAX = 5
# Several views confirm an answer that a caller has already. Black holes must not hold it up.
_VIEWS_S = 3.0
_VIEW_MIN_S = 1.0
# One planning asks leaders three questions. Metadata of many partitions costs more than an answer.
_RECENT_S = 1.0


class Cluster:
    """Metadata, offsets and epochs of a cluster, each from a broker that has them.

    Each question is repeated by ``retries``. With a deadline of the caller, it has one round.
    """

    def __init__(
        self,
        bootstrap: tuple[Address, ...],
        options: NetworkOptions,
        *,
        patient: bool = True,
        retries: Retries | None = None,
    ) -> None:
        """``patient``: whether to retry although all bootstrap servers are wrong listeners.

        Without patience the first question fails at once. A later one retries, because the cluster
        has answered before. Before the first answer, nobody has patience with certificates.
        """
        self._options = options
        self.servers = Servers(bootstrap, options, patient=patient)
        self.retries = retries or Retries(network=options)
        self._leaders_proven = patient
        """Whether the driver, or this cluster, has reached leaders already."""
        self._recent: tuple[ClusterView, float] | None = None
        """The last metadata, and when it came. A question that failed forgets it."""
        self._absences = losses.Absences(pause_max_s=losses.GONE_AFTER_S)

    def view(self, topics: Iterable[str] | None, deadline: float | None = None) -> ClusterView:
        """Returns fresh metadata of these topics (None: all topics)."""
        return self.retries.in_rounds(lambda now: self._view(topics, now), deadline)

    def views(self, topics: Iterable[str], deadline: float) -> Iterator[ClusterView]:
        """Yields the metadata of several brokers about these topics, without brokers that fail.

        One broker's metadata may be old, or may hide a topic. Five known brokers answer at most,
        within three seconds in all.
        """
        names, addresses = sorted(topics), self.servers.addresses()[:_VIEWS_MAX]
        end = min(deadline, time.monotonic() + _VIEWS_S)
        for position, address in enumerate(addresses):
            now = time.monotonic()
            if now >= end:
                return
            share_s = max(_VIEW_MIN_S, (end - now) / (len(addresses) - position))
            until = min(end, now + share_s)
            try:
                yield messages.metadata(self.servers.connect(address, until), names, until)
            except (ConnectionLost, BrokerError, WireError) as cause:
                log.debug("asking a further broker for metadata: %s", cause.message)

    def unreadable(self, topics: Iterable[str], deadline: float | None = None) -> list[str]:
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
        self.servers.know_first(view.brokers)  # the view may come from another cluster
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
        self.servers.next_turn()
        try:
            changed = self.servers.ask(
                lambda connection, until: messages.may_have_changed(connection, topic, until),
                deadline,
            )
        except (ConnectionLost, BrokerError, WireError):
            changed = True
        if changed:
            self.servers.undo_turn()
        return changed

    def offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        deadline: float | None = None,
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
        deadline: float | None = None,
        *,
        leader_epochs: LeaderEpochs | None = None,
    ) -> dict[TopicPartition, EpochEnd | None]:
        """Returns where each partition's records of an epoch end; None if its broker is too old.

        Partitions that no broker names any more are left out, after ``losses.GONE_AFTER_S``.
        ``leader_epochs``: the newest known epochs. A leader of an earlier epoch is not asked.
        """
        action = "asking for epoch ends"
        return self._of_leaders(action, messages.epoch_ends, epochs, deadline, leader_epochs or {})

    def ask_any(
        self, question: Callable[[Connection, float], T], deadline: float | None = None
    ) -> T:
        """Returns the answer of the first server that has one. Each round asks once."""
        return self.retries.in_rounds(
            lambda now: self.servers.ask(question, now.deadline), deadline
        )

    def connection(self, broker: Broker, deadline: float) -> Connection:
        """Returns a connection to a broker: the last one if it is alive, else a new one."""
        return self.servers.connect((broker.host, broker.port), deadline)

    def close(self) -> None:
        """Closes every connection."""
        self.servers.close()

    def _view(self, topics: Iterable[str] | None, now: Round) -> ClusterView:
        names = None if topics is None else sorted(topics)

        def attempt() -> ClusterView:
            self.servers.next_turn()
            return self.servers.ask(
                lambda connection, until: messages.metadata(connection, names, until), now.deadline
            )

        view = now.repeat("asking for metadata", attempt)
        self._recent = view, time.monotonic()
        self.servers.know(view.brokers)
        return view

    def _of_leaders(
        self,
        action: str,
        request: LeaderRequest[A],
        arguments: Mapping[TopicPartition, int],
        deadline: float | None,
        oldest_epochs: LeaderEpochs,
    ) -> dict[TopicPartition, A | None]:
        question = partial(self._answers_of_leaders, action, request, arguments, oldest_epochs)
        return self.retries.in_rounds(question, deadline)

    def _answers_of_leaders(
        self,
        action: str,
        request: LeaderRequest[A],
        arguments: Mapping[TopicPartition, int],
        oldest_epochs: LeaderEpochs,
        now: Round,
    ) -> dict[TopicPartition, A | None]:
        """Returns each leader's answer for its partitions. Retries the partitions that moved.

        The driver's metadata may be older than a deletion. So a partition that is gone has no
        answer, and does not hold up the others for ever.
        """
        answers: dict[TopicPartition, A | None] = {}

        def attempt() -> dict[TopicPartition, A | None]:
            missing = {tp: value for tp, value in arguments.items() if tp not in answers}
            view, leaders = self._leaders(missing, oldest_epochs, now)
            recent, self._recent = self._recent, None  # after a failure, another try looks anew
            gone = self._gone(missing, view, time.monotonic())
            epochs = {tp: leader.epoch for tp, leader in leaders.items()}
            for broker, of_broker in _by_leader(leaders, missing).items():
                # One slow broker must not use up the time for retries at the others.
                until = min(now.deadline, time.monotonic() + self._options.request_timeout_s)
                connection = self._leader_connection(broker, until)
                replied = request(connection, of_broker, epochs, until)
                user = self._options.security.user
                answers.update(_final_answers(action, broker, of_broker, replied, user))
            _check_complete(action, arguments.keys() - gone, answers)
            self._leaders_proven = True
            self._recent = recent
            return answers

        return now.repeat(action, attempt)

    def _gone(
        self, partitions: Collection[TopicPartition], view: ClusterView, now: float
    ) -> set[TopicPartition]:
        self._absences.note(partitions, {tp for tp in partitions if not view.exists(tp)}, now)
        return {tp for tp in partitions if self._absences.is_gone(tp, now)}

    def _leaders(
        self, partitions: Collection[TopicPartition], oldest_epochs: LeaderEpochs, now: Round
    ) -> tuple[ClusterView, dict[TopicPartition, Leader]]:
        """Returns metadata and the leaders: by recent metadata if it names all, else by fresh."""
        if self._recent and time.monotonic() - self._recent[1] < _RECENT_S:
            view = self._recent[0]
            leaders = _leaders_of(view, partitions, oldest_epochs)
            if len(leaders) == len(partitions):
                return view, leaders
        view = self._view({tp.topic for tp in partitions}, now)
        view = self.completed(view, partitions, {}, now.deadline)
        return view, _leaders_of(view, partitions, oldest_epochs)

    def _leader_connection(self, broker: Broker, deadline: float) -> Connection:
        """Returns a connection to a leader. While the query starts, TlsFailed is final.

        Brokers often have certificates for their bootstrap names, and not for those of the leaders.
        """
        try:
            return self.connection(broker, deadline)
        except TlsFailed as cause:
            raise cause if self._leaders_proven else not_retriable(cause) from None


def _leaders_of(
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
    """Returns each leader's partitions with their arguments."""
    grouped: dict[Broker, dict[TopicPartition, int]] = {}
    for tp, leader in leaders.items():
        grouped.setdefault(leader.broker, {})[tp] = arguments[tp]
    return grouped


def _final_answers(
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
                **tp._asdict(),
                user=user,
            )
    return final


def _check_complete(
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
            **first._asdict(),
        )
