"""Moves ranges between leaders and followers for one task (KIP-392).

A range moves only after the BrokerReader that read it has handed it on. Any error at a follower
sends the range back to its leader: a follower may lag, may not know the latest leader, or may have
a damaged disk. So only a leader decides whether records are lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from kfetch import codes
from kfetch.errors import BrokerError, ConnectionLost, KfetchError
from kfetch.fetch import recovery
from kfetch.fetch.arrivals import BrokerFailed, PartitionFailed, RangeHandedOn
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.read_replicas import ReadReplicas
from kfetch.fetch.recovery import LeaderMetadata
from kfetch.model import Broker
from kfetch.session.replies import NO_REPLICA

log = logging.getLogger(__name__)

# How long a range waits for its follower's address, in seconds. Without it the leader is read.
_ADDRESS_S = 5.0


class ReplicaMoves:
    """Places one task's ranges at leaders and followers."""

    def __init__(self, replicas: ReadReplicas, metadata: LeaderMetadata) -> None:
        self._replicas = replicas
        self._metadata = metadata

    def place(self, ranges: Iterable[RangeProgress]) -> None:
        """Choose the broker of each range that nobody reads now."""
        for progress in ranges:
            self._replicas.place(progress)

    def follow(self, move: RangeHandedOn, deadline: float) -> BrokerError | None:
        """Note a move. The next ``place`` then puts the range where the move leads.

        ``deadline``: monotonic seconds, for a look-up of the follower's address. Returns an error
        if the leader names an unknown follower unasked: then nobody sends the records.
        """
        progress = move.progress
        if move.lags:
            log.info("%s: %s has no news of it", progress.tp, progress.broker)
            self._replicas.left(progress)
        elif move.follower_id != NO_REPLICA:
            follower = self._address(move, deadline)
            if follower is None or follower.node_id == progress.leader.node_id:
                self._replicas.kept(progress)
                return _unknown_follower(progress, move.follower_id) if move.forced else None
            else:
                log.debug("%s: %s names %s", progress.tp, progress.leader, follower)
                self._replicas.redirected(progress, follower, forced=move.forced)
        return None

    def leave(self, arrival: PartitionFailed | BrokerFailed) -> KfetchError | None:
        """Note an error at a follower. Returns it if the follower can't be asked at all."""
        progress = arrival.progress
        match arrival:
            case BrokerFailed(error=cause):
                problem = cause.message
            case PartitionFailed(partition=partition):
                problem = codes.name(partition.error)
        log.info("%s: %s can't be read as a follower: %s", progress.tp, progress.broker, problem)
        self._replicas.left(progress)
        if isinstance(arrival, BrokerFailed):
            return arrival.error
        recovery.follow(progress, arrival.partition, arrival.reply)  # asks a new leader at once
        return None

    def leave_followers(self, ranges: Iterable[RangeProgress]) -> None:
        """Note that a task fails. Its retry reads from leaders: a follower may be the cause."""
        for progress in ranges:
            self._replicas.left(progress)

    def _address(self, move: RangeHandedOn, deadline: float) -> Broker | None:
        """Returns the follower; None if metadata does not name it, or does not come in time."""
        known = self._replicas.broker(move.follower_id)
        if known is not None or self._replicas.has_failed_lookup:
            return known
        until = min(deadline, time.monotonic() + _ADDRESS_S)
        try:
            view = self._metadata.view({move.progress.tp.topic}, move.arrived_at, until)
        except (BrokerError, ConnectionLost) as cause:
            log.info("the address of broker %d is unknown: %s", move.follower_id, cause.message)
            self._replicas.note_failed_lookup()
            return None
        self._replicas.learn(view.brokers)
        return view.brokers.get(move.follower_id)


def _unknown_follower(progress: RangeProgress, node_id: int) -> BrokerError:
    return BrokerError(
        f"{progress.leader} sends no records of {progress.tp}: it names broker {node_id} as a "
        "follower to read from, and metadata has no address of that broker",
        retriable=True,
        topic=progress.tp.topic,
        partition=progress.tp.partition,
    )
