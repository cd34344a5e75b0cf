"""Where partitions are read: at their leader, or at a follower in the same rack (KIP-392).

Only the leader may name a follower, and only a request with a rack asks it to. Each answer counts
for one period (``kafka.metadata.max.age.ms``). Then the leader is asked again:

    not asked  -- the leader names a follower --> at the follower -- period over --> not asked
    not asked  -- the leader names none       --> at the leader   -- period over --> not asked
    at the follower -- an error, or it lags   --> at the leader

So a follower that fails is not tried again within the period. An answer belongs to one leader and
its epoch. A new leader is asked at once.

A range moves only after the BrokerReader that read it has handed it on. Any error at a follower
sends the range back to its leader: a follower may lag, may not know the latest leader, or may have
a damaged disk. So only a leader decides whether records are lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from kfetch import codes
from kfetch.errors import BrokerError, ConnectionLost, KfetchError
from kfetch.fetch import recovery
from kfetch.fetch.arrivals import BrokerFailed, PartitionFailed, RangeHandedOn
from kfetch.fetch.progress import RangeProgress, ReplicaChoice
from kfetch.fetch.recovery import LeaderMetadata
from kfetch.model import Broker, TopicPartition
from kfetch.options import SourceOptions
from kfetch.session.replies import NO_REPLICA

log = logging.getLogger(__name__)

# A follower gets new records within replica.fetch.wait.max.ms, 500 by default. The records of a
# range exist at the leader, so a follower without them for so many seconds has fallen behind.
_LAG_S = 3.0
# With a shorter period a range would ask its leader more than it reads.
_PERIOD_MIN_S = 1.0
# How long a range waits for its follower's address, in seconds. Without it the leader is read.
_ADDRESS_S = 5.0
# How long a failed look-up of brokers counts. A task's redirected ranges look up one after the
# other, so without this each of them would wait for metadata in vain.
_UNKNOWN_S = 5.0


class ReadReplicas:
    """The replica choices of a query, by partition, for all its tasks. Any thread may call it.

    ``rack``: the rack of this process; empty: leaders are not asked for followers.
    ``period_s``: how long a choice counts.
    ``lag_s``: a follower without records of a range for so long has fallen behind.
    """

    def __init__(self, rack: str = "", period_s: float = 30.0, lag_s: float = _LAG_S) -> None:
        self.rack = rack
        self.lag_s = lag_s
        self._period_s = period_s
        self._lock = threading.Lock()
        self._choices: dict[TopicPartition, ReplicaChoice] = {}
        self._purge_at = 0.0
        self._brokers: tuple[Mapping[int, Broker], float] = {}, 0.0
        """The brokers of the last metadata, and until when they count."""
        self._unknown_until = 0.0

    @classmethod
    def of(cls, options: SourceOptions) -> ReadReplicas:
        """Returns an empty table for a query.

        A batch that is damaged at a follower may be whole at the leader. So a query that skips
        damaged batches asks for no follower.
        """
        rack = "" if options.skip_corrupt_batches else options.fetch.rack
        return cls(
            rack,
            max(_PERIOD_MIN_S, options.network.metadata_max_age_s),
            min(_LAG_S, options.poll_timeout_s / 4),
        )

    def place(self, progress: RangeProgress) -> None:
        """Put a range, which nobody reads now, at its leader or at a follower."""
        with self._lock:
            choice = self._choices.get(progress.tp)
        holds = choice is not None and choice.holds(progress.known_leader, time.monotonic())
        progress.choice = choice if holds else None

    def follow(
        self, move: RangeHandedOn, metadata: LeaderMetadata, deadline: float
    ) -> BrokerError | None:
        """Note a move. The next ``place`` then puts the range where the move leads.

        ``deadline``: monotonic seconds, for a look-up of the follower's address. Returns an error
        if the leader names an unknown follower unasked: then nobody sends the records.
        """
        progress = move.progress
        if move.lags:
            log.info("%s: the follower %s lags", progress.tp, progress.broker)
            self.return_to_leader(progress)
        elif move.follower_id != NO_REPLICA:
            follower = self._address(move, metadata, deadline)
            if follower is None or follower.node_id == progress.leader.node_id:
                self.stay_at_leader(progress)
                return _unknown_follower(progress, move.follower_id) if move.forced else None
            log.debug("%s: %s names %s", progress.tp, progress.leader, follower)
            # Asked, it may answer a question that is older than a choice for itself. Unasked, it
            # would send no records.
            self._choose(progress, follower, lambda last: not (last.follower or move.forced))
        return None

    def stay_at_leader(self, progress: RangeProgress) -> None:
        """Note that the leader named no follower: the range stays there for a period."""
        progress.choice = self._choose(progress, None)

    def return_to_leader(self, progress: RangeProgress) -> None:
        """Note that the range's follower failed: its partition stays at the leader for a period."""
        former = progress.follower
        if former is not None:
            # The leader may have named another follower since.
            self._choose(progress, None, lambda last: last.follower not in (None, former))

    def leave(self, arrival: PartitionFailed | BrokerFailed) -> KfetchError | None:
        """Note an error at a follower. Returns it if the follower can't be asked at all."""
        progress = arrival.progress
        match arrival:
            case BrokerFailed(error=cause):
                problem = cause.message
            case PartitionFailed(partition=partition):
                problem = codes.name(partition.error) if partition.error else "its log diverges"
        log.info("%s: %s can't be read as a follower: %s", progress.tp, progress.broker, problem)
        self.return_to_leader(progress)
        if isinstance(arrival, BrokerFailed):
            return arrival.error
        recovery.follow(progress, arrival.partition, arrival.reply)  # asks a new leader at once
        return None

    def _choose(
        self,
        progress: RangeProgress,
        follower: Broker | None,
        stays: Callable[[ReplicaChoice], bool] = lambda last: False,
    ) -> ReplicaChoice:
        """Choose a follower, or the leader, for a period. Returns that choice.

        The table keeps another one if it is of a newer leader, or if it holds and ``stays``.
        """
        leader, now, tp = progress.known_leader, time.monotonic(), progress.tp
        choice = ReplicaChoice(leader=leader, follower=follower, until=now + self._period_s)
        with self._lock:
            last = self._choices.get(tp)
            is_kept = last is not None and (
                leader.is_older_than(last.leader.epoch) or (last.holds(leader, now) and stays(last))
            )
            if not is_kept:
                self._choices[tp] = choice
            if now >= self._purge_at:  # partitions that left the query must not stay here
                self._choices = {tp: one for tp, one in self._choices.items() if now < one.until}
                self._purge_at = now + self._period_s
        return choice

    def _address(
        self, move: RangeHandedOn, metadata: LeaderMetadata, deadline: float
    ) -> Broker | None:
        """Returns the follower; None if metadata does not name it, or does not come in time."""
        now, (brokers, until) = time.monotonic(), self._brokers
        known = brokers.get(move.follower_id) if now < until else None
        if known is not None or now < self._unknown_until:
            return known
        try:
            topics = {move.progress.tp.topic}
            view = metadata.view(topics, move.arrived_at, min(deadline, now + _ADDRESS_S))
        except (BrokerError, ConnectionLost) as cause:
            log.info("the address of broker %d is unknown: %s", move.follower_id, cause.message)
            self._unknown_until = time.monotonic() + _UNKNOWN_S
            return None
        self._brokers = view.brokers, time.monotonic() + self._period_s
        self._unknown_until = 0.0
        return view.brokers.get(move.follower_id)


def _unknown_follower(progress: RangeProgress, node_id: int) -> BrokerError:
    return BrokerError(
        f"{progress.leader} sends no records of {progress.tp}: it names broker {node_id} as a "
        "follower to read from, and metadata has no address of that broker",
        retriable=True,
        **progress.tp._asdict(),
    )
