"""Fetches from one broker for one query: one connection, one fetch session, one request in flight.

The invariant: the session holds exactly the positions of the last ``set_position`` calls, as soon
as the broker has acknowledged them. A change stays in ``_pending_positions`` until the session
accepts the reply to the request that carried it. So no change is lost with a request, a reply or an
evicted session. The next request may leave before the last reply's records are decoded, but never
before the session has accepted that reply.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kfetch.errors import AuthenticationFailed, ConnectionLost, WireError
from kfetch.fetch import events
from kfetch.fetch.stats import FetchStats, SessionStatus
from kfetch.fetch.totals import Totals
from kfetch.model import Broker, FetchPosition, TopicPartition
from kfetch.options import FetchOptions, NetworkOptions
from kfetch.session.metadata import INVALID_SESSION_ID
from kfetch.session.plan import FetchPlan, Outcome
from kfetch.session.replies import FetchReply, PartitionReply
from kfetch.session.session import FetchSession
from kfetch.session.transitions import SessionEvent
from kfetch.wire import fetch
from kfetch.wire.connection import Connection
from kfetch.wire.frames import Allocate, ReplyBuffer

log = logging.getLogger(__name__)

# A reply may take the request timeout, the long poll and these seconds. A later one counts as lost.
_REPLY_GRACE_S = 5.0
# How long close() waits for the broker. Later the broker drops the session by itself.
_CLOSE_TIMEOUT_S = 1.0
_SESSION_GOES_ON = (SessionEvent.CONTINUED, SessionEvent.SESSIONLESS)


@dataclass(frozen=True, slots=True)
class AcceptedReply:
    """A reply that the session accepted. Its views are valid until the next ``receive``."""

    reply: FetchReply
    partitions: Mapping[TopicPartition, PartitionReply]
    positions: Mapping[TopicPartition, FetchPosition]
    """The position that each partition's records were asked for with."""


class Fetcher:
    """Fetches from one broker through one incremental session.

    A request changes connection, session, pending positions and times together, so they stand in
    one class.
    """

    def __init__(
        self,
        broker: Broker,
        fetch_: FetchOptions,
        network: NetworkOptions,
        allocate: Allocate | None = None,
        on_event: events.EventHandler = events.log_event,
    ) -> None:
        self.broker = broker
        self.reply_bytes_max = fetch_.max_bytes
        """Limit for the next reply, in bytes. Its first record batch comes whatever its size."""
        self._fetch = fetch_
        self._network = network
        self._connection: Connection | None = None
        self._session: FetchSession | None = None
        self._topic_ids = False
        self._allocate = allocate or ReplyBuffer()
        self._pending_positions: dict[TopicPartition, FetchPosition | None] = {}
        self._in_flight: FetchPlan | None = None
        self._sent_at = 0.0
        self._not_before = 0.0
        self._totals = Totals()
        self._on_event = on_event

    def set_position(self, tp: TopicPartition, position: FetchPosition | None) -> None:
        """Fetch the partition from this position on; with None, remove it from the session."""
        self._pending_positions[tp] = position

    @property
    def session(self) -> tuple[int, int]:
        """(id, epoch) of the session that the broker may hold; id 0 for none."""
        if self._session is None:
            return INVALID_SESSION_ID, 0
        return self._session.metadata.session_id, self._session.metadata.epoch

    @property
    def in_flight(self) -> bool:
        """Whether a request waits for its reply."""
        return self._in_flight is not None

    def pause_s(self) -> float:
        """Returns for how many seconds no request may go to the broker: throttle or back-off."""
        return max(0.0, self._not_before - time.monotonic())

    def back_off(self) -> None:
        """Delay the next request by ``retry.backoff.ms``, because the last reply moved no range.

        Some brokers answer at once although the request asks them to wait for data. Without the
        back-off that would be a hot loop.
        """
        self._not_before = max(self._not_before, self._sent_at + self._network.retry_backoff_s)

    def send(self, deadline: float, rack: str = "") -> None:
        """Send the next request. Waits first while the broker throttles us (KIP-219).

        With a ``rack``, a leader may name a follower there, and sends no records then (KIP-392).
        Raises ConnectionLost. Then the next request opens a new session.
        """
        self._discard_reply_in_flight(deadline)
        connection = self._connected(deadline)
        session = self._opened_session(connection)
        plan = session.plan(self._pending_positions)
        time.sleep(max(0.0, min(self._not_before, deadline) - time.monotonic()))
        version = fetch.version_for(connection, plan)
        try:
            limits = replace(self._fetch, max_bytes=self.reply_bytes_max)
            size = connection.send(fetch.request(plan, version, limits, rack), deadline)
        except (ConnectionLost, AuthenticationFailed) as cause:
            self._abandon(plan, cause)
            raise
        self._record_sent(plan, size)

    def receive(self, deadline: float) -> AcceptedReply | None:
        """Wait for the reply in flight and return it; None if it only ended the session.

        Raises ConnectionLost, WireError.
        """
        plan, self._in_flight = self._in_flight, None
        if plan is None or self._connection is None or self._session is None:
            raise RuntimeError(f"no request to {self.broker} is in flight")
        timeout_s = self._network.request_timeout_s + self._fetch.max_wait_ms / 1000
        until = min(deadline, time.monotonic() + timeout_s + _REPLY_GRACE_S)
        try:
            header, frame = self._connection.receive(until, self._allocate)
            reply = fetch.read_reply(frame, header.request_api_version)
        except (ConnectionLost, WireError) as cause:
            self._abandon(plan, cause)
            raise
        self._publish_reply(len(frame), reply)
        return self._accept(plan, reply)

    def stats(self) -> FetchStats:
        """Returns what this broker's sessions have cost."""
        return self._totals.stats()

    def close(self) -> None:
        """Close the session, if the broker can be reached, and then the connection."""
        try:
            self._close_session(time.monotonic() + _CLOSE_TIMEOUT_S)
        except (ConnectionLost, WireError, AuthenticationFailed) as cause:
            log.debug("the session at %s was left to expire: %s", self.broker, cause)
        if self._connection is not None:
            self._connection.close()

    def status(self) -> SessionStatus:
        """Returns the state of the session. Any thread may call this."""
        session = self._session
        return SessionStatus(
            broker=str(self.broker),
            state=session.state.name if session else "NONE",
            session_id=session.metadata.session_id if session else 0,
            epoch=session.metadata.epoch if session else 0,
            partitions=len(self._session_positions()),
            rack=self.broker.rack or "",
        )

    def __repr__(self) -> str:
        changes = len(self._pending_positions)
        return f"<Fetcher {self.broker}: {self._session!r}, {changes} changes pending>"

    def _session_positions(self) -> Mapping[TopicPartition, FetchPosition]:
        return self._session.partitions if self._session is not None else {}

    def _discard_reply_in_flight(self, deadline: float) -> None:
        """Receive the reply that a task left behind when it ended early, and drop its records."""
        if self._in_flight is not None:
            self.receive(deadline)

    def _connected(self, deadline: float) -> Connection:
        if self._connection is None or not self._connection.alive:
            until = min(deadline, time.monotonic() + self._network.connect_timeout_s)
            self._connection = Connection.open(
                self.broker.host, self.broker.port, self._network, until
            )
            self._publish(events.Connected(broker=self.broker))
        return self._connection

    def _opened_session(self, connection: Connection) -> FetchSession:
        topic_ids = fetch.knows_topic_ids(connection)
        if self._session is None or self._topic_ids != topic_ids:
            # The broker came back with other API versions, and without its old sessions.
            self._pending_positions = {**self._session_positions(), **self._pending_positions}
            self._session = FetchSession(topic_ids=topic_ids)
            self._topic_ids = topic_ids
        return self._session

    def _accept(self, plan: FetchPlan, reply: FetchReply) -> AcceptedReply | None:
        if self._session is None:
            raise RuntimeError("a reply without a session")
        self._not_before = time.monotonic() + reply.throttle_ms / 1000
        outcome = self._session.accept(plan, reply.for_session())
        self._publish_session_change(plan, outcome)
        if not outcome.accepted:
            return None
        self._drop_acknowledged_positions()
        # If a broker sends a key twice, the first one counts. A key that we never sent is dropped.
        by_key = {partition.key: partition for partition in reversed(reply.partitions)}
        positions = self._session_positions()
        return AcceptedReply(
            reply=reply,
            partitions={tp: by_key[key] for key, tp in outcome.partitions.items()},
            positions={tp: positions[tp] for tp in outcome.partitions.values()},
        )

    def _drop_acknowledged_positions(self) -> None:
        acknowledged = self._session_positions()
        self._pending_positions = {
            tp: position
            for tp, position in self._pending_positions.items()
            if acknowledged.get(tp) != position
        }

    def _abandon(self, plan: FetchPlan, cause: Exception) -> None:
        """The request or its reply is lost: reject the plan and close the connection."""
        if self._session is not None:
            self._publish_session_change(plan, self._session.reject(plan, cause))
        if self._connection is not None:
            self._connection.close()

    def _close_session(self, deadline: float) -> None:
        connection = self._connection
        if self._session is None or connection is None or not _can_close_session(connection):
            return
        self._discard_reply_in_flight(deadline)
        plan = self._session.close() if _can_close_session(connection) else None
        if plan is not None:
            version = fetch.version_for(connection, plan)
            size = connection.send(fetch.request(plan, version, self._fetch), deadline)
            self._record_sent(plan, size)
            self.receive(deadline)

    def _record_sent(self, plan: FetchPlan, size: int) -> None:
        self._in_flight = plan
        self._sent_at = time.monotonic()
        self._publish_request(plan, size)

    def _publish(self, event: events.FetchEvent) -> None:
        self._totals.add(event)
        self._on_event(event)

    def _publish_request(self, plan: FetchPlan, size: int) -> None:
        event = events.Requested(
            broker=self.broker,
            session_id=plan.session_id,
            epoch=plan.epoch,
            full=plan.full,
            partitions=len(plan.send),
            forgotten=len(plan.forget),
            size=size,
        )
        self._publish(event)

    def _publish_reply(self, size: int, reply: FetchReply) -> None:
        event = events.Replied(
            broker=self.broker,
            size=size,
            partitions=len(reply.partitions),
            wait_s=time.monotonic() - self._sent_at,
            other_rack_bytes=self._other_rack_bytes(reply),
        )
        self._publish(event)

    def _other_rack_bytes(self, reply: FetchReply) -> int:
        if self._fetch.rack in ("", self.broker.rack):
            return 0
        return sum(len(partition.records) for partition in reply.partitions)

    def _publish_session_change(self, plan: FetchPlan, outcome: Outcome) -> None:
        """Publish the outcome of a request, unless the session goes on as before."""
        if self._session is None or outcome.event in _SESSION_GOES_ON:
            return
        event = events.SessionChanged(
            broker=self.broker,
            event=outcome.event,
            session_id=self._session.metadata.session_id or plan.session_id,
            partitions=len(self._session.partitions),
            problem=outcome.problem,
        )
        self._publish(event)


def _can_close_session(connection: Connection) -> bool:
    """Returns whether a request can leave at once. Another log-in may take longer than closing."""
    return connection.alive and not connection.login_is_due
