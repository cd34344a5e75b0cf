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
from dataclasses import dataclass

from kafka.protocol.consumer import FetchRequest

from spark_source.agent.stats import FetchStats
from spark_source.errors import ConnectionLost, WireError
from spark_source.model import Broker, FetchPosition, TopicPartition
from spark_source.options import FetchOptions, NetworkOptions
from spark_source.session.session import FetchSession
from spark_source.session.values import TOPIC_ID_VERSION, FetchPlan
from spark_source.wire import fetch
from spark_source.wire.connection import Allocate, Connection, ReplyBuffer
from spark_source.wire.fetch import FetchReply, PartitionReply

log = logging.getLogger(__name__)

# Beyond the request timeout and the long poll: a reply that takes longer is as good as lost.
_SPARE_S = 5.0


@dataclass(frozen=True, slots=True)
class Fetched:
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
        orphan: int = 0,
    ) -> None:
        """``orphan``: id of a session of an earlier life, closed by the first request."""
        self.broker = broker
        self._orphan = orphan
        self._fetch = fetch_
        self._network = network
        self._connection: Connection | None = None
        self._session: FetchSession | None = None
        self._allocate = allocate or ReplyBuffer()
        self._wanted: dict[TopicPartition, FetchPosition | None] = {}
        self._in_flight: FetchPlan | None = None
        self._sent_at = 0.0
        self._not_before = 0.0
        self._stats = FetchStats()

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
        version = connection.version(
            FetchRequest,
            lowest=fetch.LOWEST_VERSION,
            highest=fetch.HIGHEST_VERSION if plan.uses_topic_ids else TOPIC_ID_VERSION - 1,
        )
        try:
            size = connection.send(fetch.request(plan, version, self._fetch))
        except ConnectionLost as cause:
            self._lose(plan, cause)
            raise
        self._in_flight = plan
        self._sent_at = time.monotonic()
        self._count_request(plan, size)

    def receive(self, deadline: float) -> Fetched | None:
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
        self._count(FetchStats(reply_bytes=len(frame)))
        return self._accept(plan, reply)

    def stats(self) -> FetchStats:
        """What this broker's session cost so far."""
        if self._session is None:
            return self._stats
        told = self._session.stats()
        return self._stats + FetchStats(
            sessions_opened=told.opened, sessions_lost=told.lost, sessions_refused=told.refused
        )

    def close(self) -> None:
        """Close the session at the broker, if it can be reached, and the connection."""
        try:
            self._close_session(time.monotonic() + 1.0)
        except (ConnectionLost, WireError) as cause:
            log.debug("the session at %s was left to expire: %s", self.broker, cause)
        if self._connection is not None:
            self._connection.close()

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
            self._count(FetchStats(connections_opened=1))
        return self._connection

    def _opened_session(self, connection: Connection) -> FetchSession:
        if self._session is None:
            self._session = FetchSession(
                topic_ids=connection.speaks(FetchRequest, TOPIC_ID_VERSION), orphan=self._orphan
            )
        return self._session

    def _accept(self, plan: FetchPlan, reply: FetchReply) -> Fetched | None:
        if self._session is None:
            raise RuntimeError("a reply without a session")
        self._not_before = time.monotonic() + reply.throttle_ms / 1000
        outcome = self._session.accept(plan, reply.for_session())
        log.debug("%s: %s after %s", self.broker, outcome.event, plan)
        if not outcome.accepted:
            return None
        self._drop_acknowledged(plan)
        # The first of a pair that a broker sends twice counts; a key we never sent is no key.
        by_key = {partition.key: partition for partition in reversed(reply.partitions)}
        return Fetched(
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
            self._session.reject(plan, cause)
        if self._connection is not None:
            self._connection.close()

    def _close_session(self, deadline: float) -> None:
        if self._session is None or self._connection is None or not self._connection.alive:
            return
        self._settle(deadline)
        plan = self._session.close()
        if plan is not None:
            version = self._connection.version(
                FetchRequest,
                lowest=fetch.LOWEST_VERSION,
                highest=fetch.HIGHEST_VERSION if plan.uses_topic_ids else TOPIC_ID_VERSION - 1,
            )
            self._connection.send(fetch.request(plan, version, self._fetch))
            self._in_flight = plan
            self.receive(deadline)

    def _count_request(self, plan: FetchPlan, size: int) -> None:
        if plan.full:
            self._count(FetchStats(full_requests=1, full_request_bytes=size))
        else:
            self._count(FetchStats(incremental_requests=1, incremental_request_bytes=size))

    def _count(self, more: FetchStats) -> None:
        self._stats = self._stats + more
