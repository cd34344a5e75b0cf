"""The replicas that a query reads from, by partition: one table for all tasks of a process.

A task puts each range at the leader or at a follower with ``place``. Broker threads and tasks
report what the leaders and the followers did. ``replicas`` holds the rules.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from kfetch.fetch import replicas
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.replicas import ReplicaChoice
from kfetch.model import Broker, Leader, TopicPartition
from kfetch.options import SourceOptions

# A follower gets new records within replica.fetch.wait.max.ms, 500 by default. The records of a
# range exist at the leader, so a follower without them for so many seconds has fallen behind.
_LAG_S = 3.0
# With a shorter period a range would ask its leader more than it reads.
_PERIOD_MIN_S = 1.0
# How long a failed look-up of brokers counts. A task's redirected ranges look up one after the
# other, so without this each of them would wait for metadata in vain.
_UNKNOWN_S = 5.0


class ReadReplicas:
    """The replica choices of a query. Any thread may call it.

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
        self._brokers: Mapping[int, Broker] = {}
        self._brokers_until = 0.0
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
        now = time.monotonic()
        with self._lock:
            choice = self._choices.get(progress.tp)
        if choice is not None and choice.holds(_leader(progress), now):
            progress.follower, progress.replica_until = choice.follower, choice.until
            progress.asks_replica = False
        else:
            progress.follower, progress.replica_until = None, float("inf")
            progress.asks_replica = bool(self.rack)

    def redirected(self, progress: RangeProgress, follower: Broker, *, forced: bool) -> None:
        """Note that the range's leader named a follower; see ``replicas.redirected``."""
        now, leader = time.monotonic(), _leader(progress)
        with self._lock:
            choice = replicas.redirected(
                self._choices.get(progress.tp),
                leader,
                follower,
                now=now,
                period_s=self._period_s,
                forced=forced,
            )
            self._set(progress.tp, choice, now)

    def kept(self, progress: RangeProgress) -> None:
        """Note that the range's leader was asked, and that the range stays there for a period."""
        now, leader = time.monotonic(), _leader(progress)
        with self._lock:
            current = self._choices.get(progress.tp)
            choice = replicas.kept(current, leader, now=now, period_s=self._period_s)
            self._set(progress.tp, choice, now)
        progress.replica_until = now + self._period_s

    def left(self, progress: RangeProgress) -> None:
        """Note that the range's follower failed: its partition stays at the leader for a period."""
        if progress.follower is None:
            return
        now, leader = time.monotonic(), _leader(progress)
        with self._lock:
            choice = replicas.left(
                self._choices.get(progress.tp),
                leader,
                progress.follower,
                now=now,
                period_s=self._period_s,
            )
            self._set(progress.tp, choice, now)

    def broker(self, node_id: int) -> Broker | None:
        """Returns a broker's address, if metadata of this period has named it."""
        with self._lock:
            known = time.monotonic() < self._brokers_until
            return self._brokers.get(node_id) if known else None

    def learn(self, brokers: Mapping[int, Broker]) -> None:
        """Keep the addresses of fresh metadata for a period."""
        with self._lock:
            self._brokers, self._brokers_until = brokers, time.monotonic() + self._period_s
            self._unknown_until = 0.0

    def note_failed_lookup(self) -> None:
        """Note that metadata did not come. For some seconds nobody needs to ask again."""
        with self._lock:
            self._unknown_until = time.monotonic() + _UNKNOWN_S

    @property
    def has_failed_lookup(self) -> bool:
        """Whether metadata failed to come some seconds ago or less."""
        with self._lock:
            return time.monotonic() < self._unknown_until

    def _set(self, tp: TopicPartition, choice: ReplicaChoice | None, now: float) -> None:
        if choice is not None:
            self._choices[tp] = choice
        if now >= self._purge_at:  # partitions that left the query must not stay here
            self._choices = {tp: one for tp, one in self._choices.items() if now < one.until}
            self._purge_at = now + self._period_s


def _leader(progress: RangeProgress) -> Leader:
    return Leader(broker=progress.leader, epoch=progress.leader_epoch)
