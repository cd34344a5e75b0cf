"""Reads ranges from one broker: turns a fetcher's replies into records of ranges.

A BrokerReader belongs to one thread. It queues the ranges of each partition, because a session has
one position per partition: the first range is read, the others wait. A range whose partition has an
error leaves the BrokerReader, and its SplitReader decides what to do. Otherwise the partition would
end the broker's long poll again and again.

A range also leaves when its leader names a follower in the executor's rack, or when it is to leave
such a follower (KIP-392). Only the BrokerReader that reads a range hands it on, so no two brokers
are ever asked for the same range at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from kfetch.decoding import extent
from kfetch.errors import AuthenticationFailed, ConnectionLost, KfetchError, WireError
from kfetch.fetch.arrivals import (
    Arrival,
    BrokerFailed,
    PartitionFailed,
    RangeHandedOn,
    RecordsArrived,
)
from kfetch.fetch.fetcher import AcceptedReply, Fetcher
from kfetch.fetch.progress import RangeProgress
from kfetch.fetch.replicas import ReadReplicas
from kfetch.fetch.stats import SessionStatus
from kfetch.model import FetchPosition, TopicPartition
from kfetch.session.replies import NO_REPLICA, PartitionReply

# How often ranges are checked for replica choices that have expired, in seconds.
_CHECK_S = 1.0


def _ignore_done_range(_progress: RangeProgress, _partition: PartitionReply) -> None:
    """The default: nobody uses the records beyond a range's end."""


@dataclass(slots=True)
class BrokerReader:
    """Reads ranges from one broker."""

    fetcher: Fetcher
    partition_max_bytes: int
    on_range_done: Callable[[RangeProgress, PartitionReply], None] = _ignore_done_range
    """Called for a range that is done, with a reply that may hold records beyond its end."""
    skip_corrupt: bool = False
    """Whether the decoder skips damaged batches. Then the end of each batch must be certain."""
    replicas: ReadReplicas = field(default_factory=ReadReplicas)
    """Knows this process's rack, and gets the leaders' answers."""
    requests_since: Callable[[], float] = lambda: 0.0
    """Returns the monotonic time at which the last wait for memory ended: now, while one lasts."""
    _asked: Sequence[RangeProgress] = ()
    """The ranges for which the last request asks their leader for a follower. Empty: the
    request has no rack."""
    _checked_at: float = 0.0
    _queues: dict[TopicPartition, list[RangeProgress]] = field(default_factory=dict)
    """The ranges of each partition; the first one is being read."""

    @property
    def active(self) -> bool:
        """Whether there is any range to read."""
        return bool(self._queues)

    @property
    def partition_count(self) -> int:
        """How many partitions are being read."""
        return len(self._queues)

    def status(self) -> SessionStatus:
        """Returns the state of the session. Any thread may call this."""
        first = [progress for queue in list(self._queues.values()) for progress in queue[:1]]
        followed = sum(progress.follower is not None for progress in first)
        return replace(self.fetcher.status(), as_follower=followed)

    def add(self, progress: RangeProgress) -> None:
        """Read a range, after the earlier ranges of its partition."""
        queue = self._queues.setdefault(progress.tp, [])
        queue.append(progress)
        if len(queue) == 1:
            self._start(progress)

    def is_queued(self, progress: RangeProgress) -> bool:
        """Whether a range waits for another range of its partition. Any thread may call this."""
        return next(iter(self._queues.get(progress.tp, ())), progress) is not progress

    def drop(self, progress: RangeProgress) -> None:
        """Stop reading a range, or take it out of its queue."""
        queue = self._queues.get(progress.tp, [])
        # By identity: two tasks may read the same range at once.
        at = next((i for i, other in enumerate(queue) if other is progress), None)
        if at is None:
            return
        del queue[at]
        if at == 0:
            progress.asked_s += self._asked_s(progress)
            self._start_next(progress.tp)

    def send(self, deadline: float) -> list[Arrival]:
        """Send the next request, if there is any range to read. Returns the ranges that failed."""
        if not self.active:
            return []
        # A rack counts for all partitions of a request. So a request has it only if a range asks.
        rack = self.replicas.rack
        asked = [one for one in self._first_ranges() if one.choice is None] if rack else []
        try:
            self.fetcher.send(deadline, rack if asked else "")
        except (ConnectionLost, WireError, AuthenticationFailed) as cause:
            return self.fail(cause)
        self._asked = asked
        return []

    def receive(self, deadline: float) -> list[Arrival]:
        """Wait for the reply in flight and return its arrivals.

        Their records are views, valid as long as those of ``AcceptedReply``.
        """
        try:
            accepted = self.fetcher.receive(deadline)
        except (ConnectionLost, WireError, AuthenticationFailed) as cause:
            return self.fail(cause)
        if accepted is None:
            return []
        arrivals = [*self._arrivals(accepted)]
        advanced = any(isinstance(one, RecordsArrived) and one.advanced for one in arrivals)
        # The reply to a request with a rack may come at once and without records.
        if not self._asked and not advanced:
            self.fetcher.back_off()
        self._note_answers(accepted)
        return [*arrivals, *self._overdue(accepted)]

    def fail(self, cause: KfetchError) -> list[Arrival]:
        """Drop every range. Returns an arrival with the cause for each of them."""
        dropped = [progress for queue in self._queues.values() for progress in queue]
        for progress in dropped:
            self.drop(progress)
        return [BrokerFailed(progress=progress, error=cause) for progress in dropped]

    def _arrivals(self, accepted: AcceptedReply) -> Iterable[Arrival]:
        for tp, partition in accepted.partitions.items():
            progress = self._queues.get(tp, [None])[0]
            # A range may have come after the request left. The reply is not for its position.
            if progress is None or not _is_for(progress, accepted.positions[tp]):
                continue
            if partition.error or partition.diverging:
                self.drop(progress)
                yield PartitionFailed(progress=progress, partition=partition, reply=accepted.reply)
            elif len(partition.records):
                arrival = self.accept_records(progress, partition)
                if progress.done:
                    self.drop(progress)
                else:
                    self.fetcher.set_position(progress.tp, self._position(progress))
                yield arrival
            elif progress.follower is None and partition.preferred_read_replica != NO_REPLICA:
                yield from self._redirect(progress, partition.preferred_read_replica)

    def _redirect(self, progress: RangeProgress, follower_id: int) -> Iterable[Arrival]:
        """Hand on a range whose leader names a follower instead of sending records.

        A range that did not ask stays: the next request has no rack, and brings its records.
        """
        if self._asked and progress.choice is not None:
            return
        self.drop(progress)
        yield RangeHandedOn(progress=progress, follower_id=follower_id, forced=not self._asked)

    def _note_answers(self, accepted: AcceptedReply) -> None:
        """Note the ranges whose leader was asked and named no follower, also those that are done.

        In an incremental session too, a reply has the partition if its leader names a follower.
        There are two exceptions. A reply that only throttles has no partitions. A broker that is
        not Apache Kafka may omit partitions from a full reply, so those ranges ask once more.
        """
        if accepted.only_throttled:
            return
        is_full = bool(self._asked) and self._is_full(accepted)
        for progress in self._asked:
            partition = accepted.partitions.get(progress.tp)
            omitted = partition is None and is_full
            if omitted and not progress.omitted_once:
                progress.omitted_once = True
            elif _serves(partition):
                progress.omitted_once = False
                self.replicas.stay_at_leader(progress)

    def _is_full(self, accepted: AcceptedReply) -> bool:
        size = sum(len(partition.records) for partition in accepted.partitions.values())
        return size >= self.fetcher.reply_bytes_max

    def _overdue(self, accepted: AcceptedReply) -> Iterable[Arrival]:
        """Yields ranges that must leave a follower. Lets others ask their leader for one again."""
        now = time.monotonic()
        if now < self._checked_at + _CHECK_S:
            return
        self._checked_at = now
        # While other partitions fill the replies, a range may wait for its turn.
        quiet = not any(len(partition.records) for partition in accepted.partitions.values())
        for progress in self._first_ranges():
            over = progress.choice is not None and now >= progress.choice.until
            idle_s = self._asked_s(progress)
            if progress.follower is None:
                progress.choice = None if over else progress.choice
            elif over or (quiet and idle_s >= self.replicas.lag_s):
                self.drop(progress)
                yield RangeHandedOn(progress=progress, lags=not over)

    def accept_records(self, progress: RangeProgress, partition: PartitionReply) -> RecordsArrived:
        """Move a range's position past the complete batches of a reply.

        Returns the arrival with the records.
        """
        end = progress.end if self.skip_corrupt else None
        complete = extent(partition.records, progress.offset, end=end)
        if self.skip_corrupt and complete.batches:
            # The next fetch reads a last batch whose end is uncertain. No later range may use it.
            partition = replace(partition, records=partition.records[: complete.size])
        progress.end_before_truncation(partition.records, complete)
        records = progress.slice(partition.records, partition.aborted)
        if progress.advance(complete):
            progress.advanced_at, progress.asked_s = time.monotonic(), 0.0
        if progress.done:
            self.on_range_done(progress, partition)
        return RecordsArrived(progress=progress, records=records, next_offset=progress.offset)

    def _first_ranges(self) -> list[RangeProgress]:
        """Returns the ranges that are being read."""
        return [queue[0] for queue in self._queues.values()]

    def _start_next(self, tp: TopicPartition) -> None:
        """Start the next range of a partition, or remove the partition from the session."""
        queue = self._queues[tp]
        if queue:
            self._start(queue[0])
        else:
            del self._queues[tp]
            self.fetcher.set_position(tp, None)

    def _start(self, progress: RangeProgress) -> None:
        progress.requested_at, progress.omitted_once = time.monotonic(), False
        self.fetcher.set_position(progress.tp, self._position(progress))

    def _asked_s(self, progress: RangeProgress) -> float:
        """Returns for how many seconds the broker has been asked for a range and sent none."""
        since = max(progress.requested_at, progress.advanced_at, self.requests_since())
        return max(0.0, time.monotonic() - since)

    def _position(self, progress: RangeProgress) -> FetchPosition:
        return progress.position(self.partition_max_bytes)


def _is_for(progress: RangeProgress, asked: FetchPosition) -> bool:
    """Returns whether the records at a requested position are those that a range needs.

    A worker may receive the reply to a task's last request minutes later. Meanwhile the topic may
    have been created again, or an election may have cut the log. Then other records are there now.
    """
    return (asked.offset, asked.topic_id, asked.leader_epoch) == (
        progress.offset,
        progress.range.topic_id,
        progress.leader_epoch,
    )


def _serves(partition: PartitionReply | None) -> bool:
    """Returns whether a leader serves a partition itself; None: nothing has changed there."""
    if partition is None:
        return True
    failed = partition.error or partition.diverging
    return not failed and partition.preferred_read_replica == NO_REPLICA
