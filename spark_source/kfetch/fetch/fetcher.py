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
from kfetch.fetch.stats import SessionStatus
from kfetch.fetch.totals import Totals
from kfetch.model import Broker, FetchPosition, TopicPartition
from kfetch.options import FetchOptions, NetworkOptions
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
_REFUSALS_MAX = 2
_SESSION_GOES_ON = (SessionEvent.CONTINUED, SessionEvent.SESSIONLESS)
_SESSION_COUNTS = {
    SessionEvent.OPENED: "sessions_opened",
    SessionEvent.LOST: "sessions_lost",
    SessionEvent.REFUSED: "sessions_refused",
    SessionEvent.CLOSED: "sessions_closed",
}
"""The fields of FetchStats that these events raise."""


@dataclass(frozen=True, slots=True)
class AcceptedReply:
    """A reply that the session accepted. Its views are valid until the next ``receive``."""

    reply: FetchReply
    partitions: Mapping[TopicPartition, PartitionReply]
    positions: Mapping[TopicPartition, FetchPosition]
    """The position that each partition's records were asked for with."""
    full: bool = False
    """Whether the request named every partition. The reply should, and some brokers omit a part."""

    @property
    def only_throttled(self) -> bool:
        """Whether the reply says nothing of any partition, because the broker throttles."""
        return self.reply.throttle_ms > 0 and not self.partitions


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
        totals: Totals | None = None,
    ) -> None:
        """``totals``: where it counts what it costs; by default, for itself alone."""
        self.broker = broker
        self.reply_bytes_max = fetch_.max_bytes
        """Limit for the next reply, in bytes. Its first record batch comes whatever its size."""
        self._fetch = fetch_
        self._network = network
        self._connection: Connection | None = None
        self._topic_ids = False
        self._session = FetchSession(topic_ids=False)
        self._allocate = allocate or ReplyBuffer()
        self._pending_positions: dict[TopicPartition, FetchPosition | None] = {}
        self._in_flight: FetchPlan | None = None
        self._refusals = 0
        """Replies in a row that only ended the session. One is routine."""
        self._throttled_s = 0.0
        """The sum of the waits that replies in a row have asked for, without anything else."""
        self._sent_at = 0.0
        self._not_before = 0.0
        self.totals = totals or Totals()

    def set_position(self, tp: TopicPartition, position: FetchPosition | None) -> None:
        """Fetch the partition from this position on; with None, remove it from the session."""
        self._pending_positions[tp] = position

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

        Raises ConnectionLost and WireError. ConnectionLost also if two replies in a row only ended
        the session, or if the broker only throttles for longer than the request timeout.
        """
        plan, self._in_flight = self._in_flight, None
        if plan is None or self._connection is None:
            raise RuntimeError(f"no request to {self.broker} is in flight")
        timeout_s = self._network.request_timeout_s + self._fetch.max_wait_ms / 1000
        until = min(deadline, time.monotonic() + timeout_s + _REPLY_GRACE_S)
        try:
            header, frame = self._connection.receive(until, self._allocate)
            reply = fetch.read_reply(frame, header.request_api_version)
        except (ConnectionLost, WireError) as cause:
            self._abandon(plan, cause)
            raise
        self._count_reply(len(frame), reply)
        return self._accept(plan, reply)

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
            state=session.state.name,
            session_id=session.metadata.session_id,
            epoch=session.metadata.epoch,
            partitions=len(session.partitions),
            rack=self.broker.rack or "",
        )

    def __repr__(self) -> str:
        changes = len(self._pending_positions)
        return f"<Fetcher {self.broker}: {self._session!r}, {changes} changes pending>"

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
            self.totals.add(connections_opened=1)
            log.debug("%s: connected", self.broker)
        return self._connection

    def _opened_session(self, connection: Connection) -> FetchSession:
        topic_ids = fetch.knows_topic_ids(connection)
        if self._topic_ids != topic_ids:
            # The broker came back with other API versions, and without its old sessions.
            self._pending_positions = {**self._session.partitions, **self._pending_positions}
            self._session = FetchSession(topic_ids=topic_ids)
            self._topic_ids = topic_ids
        return self._session

    def _accept(self, plan: FetchPlan, reply: FetchReply) -> AcceptedReply | None:
        self._not_before = time.monotonic() + reply.throttle_ms / 1000
        outcome = self._session.accept(plan, reply.for_session())
        self._publish_session_change(plan, outcome)
        if outcome.event is SessionEvent.THROTTLED_FULL:
            self._wait_for_quota(reply.throttle_ms / 1000)
            return None
        self._throttled_s = 0.0
        self._refusals = 0 if outcome.accepted else self._refusals + 1
        if self._refusals >= _REFUSALS_MAX:
            raise ConnectionLost(f"{self.broker} refuses every fetch: {self!r}")
        if not outcome.accepted:
            return None
        self._drop_acknowledged_positions()
        # If a broker sends a key twice, the first one counts. A key that we never sent is dropped.
        by_key = {partition.key: partition for partition in reversed(reply.partitions)}
        positions = self._session.partitions
        return AcceptedReply(
            reply=reply,
            partitions={tp: by_key[key] for key, tp in outcome.partitions.items()},
            positions={tp: positions[tp] for tp in outcome.partitions.values()},
            full=plan.full,
        )

    def _wait_for_quota(self, throttle_s: float) -> None:
        """Delay the next request. Raises ConnectionLost if such waits add up to the limit."""
        self.back_off()
        if self._throttled_s >= self._network.request_timeout_s:
            raise ConnectionLost(
                f"{self.broker} throttles this client: its last replies brought nothing, and asked "
                f"to wait for {self._throttled_s:.1f} s in all",
                action="raise the quota of this user or client id",
            )
        self._throttled_s += max(throttle_s, self._network.retry_backoff_s)

    def _drop_acknowledged_positions(self) -> None:
        acknowledged = self._session.partitions
        self._pending_positions = {
            tp: position
            for tp, position in self._pending_positions.items()
            if acknowledged.get(tp) != position
        }

    def _abandon(self, plan: FetchPlan, cause: Exception) -> None:
        """The request or its reply is lost: reject the plan and close the connection."""
        self._publish_session_change(plan, self._session.reject(plan, cause))
        if self._connection is not None:
            self._connection.close()

    def _close_session(self, deadline: float) -> None:
        connection = self._connection
        if connection is None or not _can_close_session(connection):
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
        kind, named, forgotten = "full", len(plan.send), len(plan.forget)
        if plan.full:
            self.totals.add(full_requests=1, full_request_bytes=size)
        else:
            kind, changes = "incremental", named + forgotten
            self.totals.add(
                incremental_requests=1,
                incremental_request_bytes=size,
                incremental_partitions=changes,
            )
        log.debug(
            "%s: %s fetch (%d, %d) of %d bytes names %d partitions and forgets %d",
            *(self.broker, kind, plan.session_id, plan.epoch, size, named, forgotten),
        )

    def _count_reply(self, size: int, reply: FetchReply) -> None:
        wait_s, other_rack_bytes = time.monotonic() - self._sent_at, 0
        if self._fetch.rack not in ("", self.broker.rack):
            other_rack_bytes = sum(len(partition.records) for partition in reply.partitions)
        self.totals.add(reply_bytes=size, wait_s=wait_s, other_rack_bytes=other_rack_bytes)
        log.debug(
            "%s: %d bytes of %d partitions after %.1f ms",
            *(self.broker, size, len(reply.partitions), wait_s * 1000),
        )

    def _publish_session_change(self, plan: FetchPlan, outcome: Outcome) -> None:
        """Count and log the outcome of a request, unless the session goes on as before."""
        if outcome.event in _SESSION_GOES_ON:
            return
        if outcome.event in _SESSION_COUNTS:
            self.totals.add(**{_SESSION_COUNTS[outcome.event]: 1})
        session_id = self._session.metadata.session_id or plan.session_id
        why = f": {outcome.problem}" if outcome.problem else ""
        log.debug(
            "%s: session %d %s, %d partitions%s",
            *(self.broker, session_id, outcome.event.value, len(self._session.partitions), why),
        )


def _can_close_session(connection: Connection) -> bool:
    """Returns whether a request can leave at once. Another log-in may take longer than closing."""
    return connection.alive and not connection.login_is_due
