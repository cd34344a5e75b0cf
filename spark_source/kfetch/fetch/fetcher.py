"""One broker of one query: one connection, one fetch session, one request in flight.

The invariant: the session holds exactly the positions that ``want`` was last told, as soon as the
broker has acknowledged them. Changes wait in ``_wanted`` until a reply accepts the plan that
carried them, so a lost request, a lost reply or an evicted session loses none. The next request
may leave before the last reply's records are decoded, never before that reply is accepted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kfetch.errors import ConnectionLost, WireError
from kfetch.fetch import events
from kfetch.fetch.stats import FetchStats, SessionStatus, Totals
from kfetch.model import Broker, FetchPosition, TopicPartition
from kfetch.options import FetchOptions, NetworkOptions
from kfetch.replies import FetchReply, PartitionReply
from kfetch.session.session import FetchSession
from kfetch.session.transitions import SessionEvent
from kfetch.session.values import FetchPlan, Outcome
from kfetch.wire import fetch
from kfetch.wire.connection import Allocate, Connection, ReplyBuffer

log = logging.getLogger(__name__)

# Beyond the request timeout and the long poll: a reply that takes longer is as good as lost.
_SPARE_S = 5.0
# How long a session that ends waits for its broker; the broker drops it later by itself.
_GOODBYE_S = 1.0


@dataclass(frozen=True, slots=True)
class AcceptedReply:
    """An accepted reply: its partitions by name. Views live until the next ``receive``."""

    reply: FetchReply
    partitions: Mapping[TopicPartition, PartitionReply]
    offsets: Mapping[TopicPartition, int]
    """The position that each partition's records answer."""


class Fetcher:
    """Fetches from one broker through one incremental session."""

    def __init__(
        self,
        broker: Broker,
        fetch_: FetchOptions,
        network: NetworkOptions,
        allocate: Allocate | None = None,
        sink: events.Sink = events.story,
        orphan: int = 0,
    ) -> None:
        """``orphan``: id of a session of an earlier life, closed by the first request."""
        self.broker = broker
        self.reply_bytes = fetch_.max_bytes
        """What the next reply may bring; its first record batch comes whatever its size."""
        self._orphan = orphan
        self._fetch = fetch_
        self._network = network
        self._connection: Connection | None = None
        self._session: FetchSession | None = None
        self._topic_ids = False
        self._allocate = allocate or ReplyBuffer()
        self._wanted: dict[TopicPartition, FetchPosition | None] = {}
        self._in_flight: FetchPlan | None = None
        self._sent_at = 0.0
        self._not_before = 0.0
        self._totals = Totals()
        self._sink = sink

    def want(self, tp: TopicPartition, position: FetchPosition | None) -> None:
        """The partition's new position; None to read it no longer."""
        self._wanted[tp] = position

    @property
    def session(self) -> tuple[int, int]:
        """(id, epoch) of the session as the broker may hold it; id 0 for none."""
        if self._session is None:
            return self._orphan, 0
        return self._session.metadata.session_id, self._session.metadata.epoch

    @property
    def in_flight(self) -> bool:
        """Whether a request waits for its reply."""
        return self._in_flight is not None

    def pause_s(self) -> float:
        """How long the broker still wants to be left alone, in seconds (KIP-219)."""
        return max(0.0, self._not_before - time.monotonic())

    def calm(self) -> None:
        """The last reply moved nothing: not every broker waits for data as it is asked to, and
        that must not become a hot loop."""
        self._not_before = max(self._not_before, self._sent_at + self._network.retry_backoff_s)

    def send(self, deadline: float) -> None:
        """Send the next request. A throttling broker's pause is waited for first (KIP-219).

        Raises ConnectionLost; the session then knows that it must begin again.
        """
        self._settle(deadline)
        connection = self._connected(deadline)
        session = self._opened_session(connection)
        plan = session.plan(self._wanted)
        time.sleep(max(0.0, min(self._not_before, deadline) - time.monotonic()))
        version = fetch.version_for(connection, plan)
        try:
            limits = replace(self._fetch, max_bytes=self.reply_bytes)
            size = connection.send(fetch.request(plan, version, limits))
        except ConnectionLost as cause:
            self._lose(plan, cause)
            raise
        self._note_sent(plan, size)

    def receive(self, deadline: float) -> AcceptedReply | None:
        """The reply to the request in flight; None if it brought nothing but a new start.

        Raises ConnectionLost, WireError.
        """
        plan, self._in_flight = self._in_flight, None
        if plan is None or self._connection is None or self._session is None:
            raise RuntimeError(f"no request to {self.broker} is in flight")
        patience_s = self._network.request_timeout_s + self._fetch.max_wait_ms / 1000 + _SPARE_S
        until = min(deadline, time.monotonic() + patience_s)
        try:
            header, frame = self._connection.receive(until, self._allocate)
            reply = fetch.read_reply(frame, header.request_api_version)
        except (ConnectionLost, WireError) as cause:
            self._lose(plan, cause)
            raise
        self._tell_reply(len(frame), len(reply.partitions))
        return self._accept(plan, reply)

    def stats(self) -> FetchStats:
        """What this broker's session cost so far."""
        return self._totals.stats()

    def close(self) -> None:
        """Close the session at the broker, if it can be reached, and the connection."""
        try:
            self._close_session(time.monotonic() + _GOODBYE_S)
        except (ConnectionLost, WireError) as cause:
            log.debug("the session at %s was left to expire: %s", self.broker, cause)
        if self._connection is not None:
            self._connection.close()

    def status(self) -> SessionStatus:
        """How the session stands. Any thread may ask."""
        session = self._session
        return SessionStatus(
            broker=str(self.broker),
            state=session.state.name if session else "NONE",
            session_id=session.metadata.session_id if session else 0,
            epoch=session.metadata.epoch if session else 0,
            partitions=len(self._held()),
        )

    def __repr__(self) -> str:
        return f"<Fetcher {self.broker}: {self._session!r}, {len(self._wanted)} changes waiting>"

    def _held(self) -> Mapping[TopicPartition, FetchPosition]:
        return self._session.partitions if self._session is not None else {}

    def _settle(self, deadline: float) -> None:
        """Take the reply that a task left behind when it ended early; its records are not ours."""
        if self._in_flight is not None:
            self.receive(deadline)

    def _connected(self, deadline: float) -> Connection:
        if self._connection is None or not self._connection.alive:
            until = min(deadline, time.monotonic() + self._network.connect_timeout_s)
            self._connection = Connection.open(
                self.broker.host, self.broker.port, self._network, until
            )
            self._tell(events.Connected(broker=self.broker))
        return self._connection

    def _opened_session(self, connection: Connection) -> FetchSession:
        topic_ids = fetch.knows_topic_ids(connection)
        if self._session is None or self._topic_ids != topic_ids:
            # A broker that came back with other versions: its sessions did not survive that.
            self._wanted = {**self._held(), **self._wanted}
            self._session = FetchSession(topic_ids=topic_ids, orphan=self._orphan)
            self._topic_ids, self._orphan = topic_ids, 0
        return self._session

    def _accept(self, plan: FetchPlan, reply: FetchReply) -> AcceptedReply | None:
        if self._session is None:
            raise RuntimeError("a reply without a session")
        self._not_before = time.monotonic() + reply.throttle_ms / 1000
        outcome = self._session.accept(plan, reply.for_session())
        self._tell_move(plan, outcome)
        if not outcome.accepted:
            return None
        self._drop_acknowledged(plan)
        # The first of a pair that a broker sends twice counts; a key we never sent is no key.
        by_key = {partition.key: partition for partition in reversed(reply.partitions)}
        return AcceptedReply(
            reply=reply,
            partitions={tp: by_key[key] for key, tp in outcome.partitions.items()},
            offsets={tp: self._held()[tp].offset for tp in outcome.partitions.values()},
        )

    def _drop_acknowledged(self, plan: FetchPlan) -> None:
        held = self._held()
        for tp in [tp for tp, wanted in self._wanted.items() if held.get(tp) == wanted]:
            del self._wanted[tp]

    def _lose(self, plan: FetchPlan, cause: Exception) -> None:
        if self._session is not None:
            self._tell_move(plan, self._session.reject(plan, cause))
        if self._connection is not None:
            self._connection.close()

    def _close_session(self, deadline: float) -> None:
        if self._session is None or self._connection is None or not self._connection.alive:
            return
        self._settle(deadline)
        plan = self._session.close()
        if plan is not None:
            version = fetch.version_for(self._connection, plan)
            size = self._connection.send(fetch.request(plan, version, self._fetch))
            self._note_sent(plan, size)
            self.receive(deadline)

    def _note_sent(self, plan: FetchPlan, size: int) -> None:
        self._in_flight = plan
        self._sent_at = time.monotonic()
        self._tell_request(plan, size)

    def _tell(self, fact: events.Fact) -> None:
        self._totals.add(fact)
        self._sink(fact)

    def _tell_request(self, plan: FetchPlan, size: int) -> None:
        fact = events.Requested(
            broker=self.broker,
            session_id=plan.session_id,
            epoch=plan.epoch,
            full=plan.full,
            named=len(plan.send),
            forgotten=len(plan.forget),
            size=size,
        )
        self._tell(fact)

    def _tell_reply(self, size: int, partitions: int) -> None:
        wait_s = time.monotonic() - self._sent_at
        fact = events.Replied(broker=self.broker, size=size, partitions=partitions, wait_s=wait_s)
        self._tell(fact)

    def _tell_move(self, plan: FetchPlan, outcome: Outcome) -> None:
        """A request that was answered as usual is no news of the session."""
        if self._session is None or outcome.event in (
            SessionEvent.CONTINUED,
            SessionEvent.SESSIONLESS,
        ):
            return
        fact = events.SessionMoved(
            broker=self.broker,
            event=outcome.event,
            session_id=self._session.metadata.session_id or plan.session_id,
            partitions=len(self._session.partitions),
            problem=outcome.problem,
        )
        self._tell(fact)
