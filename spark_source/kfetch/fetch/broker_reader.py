"""Reads ranges from one broker: turns a fetcher's replies into records of ranges.

A BrokerReader belongs to one thread. It queues the ranges of each partition, because a session has
one position per partition: the first range is read, the others wait. A range whose partition has an
error leaves the BrokerReader, and its SplitReader decides what to do. Otherwise the partition would
end the broker's long poll again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kfetch.decoding import extent
from kfetch.errors import AuthenticationFailed, ConnectionLost, KfetchError, WireError
from kfetch.fetch.fetcher import AcceptedReply, Fetcher
from kfetch.fetch.progress import RangeProgress
from kfetch.model import Broker, FetchPosition, TopicPartition
from kfetch.records import Slice
from kfetch.replies import FetchReply, PartitionReply


def _release_nothing() -> None:
    """The default: no budget counts the memory of the records."""


def _ignore_done_range(_progress: RangeProgress, _partition: PartitionReply) -> None:
    """The default: nobody uses the records beyond a range's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What arrived for a range: records, an error of its partition, or the loss of its broker."""

    progress: RangeProgress
    records: Slice | None = None
    next_offset: int = -1
    """Position behind ``records``."""
    partition_error: PartitionReply | None = None
    """The partition's reply with an error or a divergence. The range has left the BrokerReader."""
    reply: FetchReply | None = None
    """The whole reply of ``partition_error``, which may name the new leader."""
    broker_error: KfetchError | None = None
    """Why the broker can't be asked. The range has left the BrokerReader."""
    release: Callable[[], None] = _release_nothing
    """Returns the memory of ``records`` to the budget. Further calls do nothing."""
    arrived_at: float = field(default_factory=time.monotonic)
    """Monotonic time. A task may handle an arrival long after it."""

    @property
    def advanced(self) -> bool:
        """Whether the records moved the range's position."""
        return self.records is not None and self.next_offset > self.records.start


@dataclass(slots=True)
class BrokerReader:
    """Reads ranges from one broker."""

    fetcher: Fetcher
    partition_max_bytes: int
    on_range_done: Callable[[RangeProgress, PartitionReply], None] = _ignore_done_range
    """Called for a range that is done, with a reply that may hold records beyond its end."""
    skip_corrupt: bool = False
    """Whether the decoder skips damaged batches. Then the end of each batch must be certain."""
    _queues: dict[TopicPartition, list[RangeProgress]] = field(default_factory=dict)
    """The ranges of each partition; the first one is being read."""
    _session_restarts: int = 0
    """Replies in a row that only ended the session."""

    @property
    def broker(self) -> Broker:
        """The broker that it reads from."""
        return self.fetcher.broker

    @property
    def active(self) -> bool:
        """Whether there is any range to read."""
        return bool(self._queues)

    @property
    def partition_count(self) -> int:
        """How many partitions are being read."""
        return len(self._queues)

    @property
    def pause_s(self) -> float:
        """For how many seconds no request may go to the broker."""
        return self.fetcher.pause_s()

    @property
    def in_flight(self) -> bool:
        """Whether a request waits for its reply."""
        return self.fetcher.in_flight

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
            self._start_next(progress.tp)

    def send(self, deadline: float) -> list[Arrival]:
        """Send the next request, if there is any range to read. Returns the ranges that failed."""
        if not self.active:
            return []
        try:
            self.fetcher.send(deadline)
        except (ConnectionLost, WireError, AuthenticationFailed) as cause:
            return self.fail(cause)
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
            return self._session_restarted()
        self._session_restarts = 0
        arrivals = [*self._arrivals(accepted)]
        if not any(arrival.advanced for arrival in arrivals):
            self.fetcher.back_off()
        return arrivals

    def fail(self, cause: KfetchError) -> list[Arrival]:
        """Drop every range. Returns an arrival with the cause for each of them."""
        dropped = [progress for queue in self._queues.values() for progress in queue]
        for progress in dropped:
            self.drop(progress)
        return [Arrival(progress=progress, broker_error=cause) for progress in dropped]

    def _arrivals(self, accepted: AcceptedReply) -> Iterable[Arrival]:
        for tp, partition in accepted.partitions.items():
            progress = self._queues.get(tp, [None])[0]
            # A range may have come after the request left. The reply is not for its position.
            if progress is None or accepted.offsets[tp] != progress.offset:
                continue
            if partition.error or partition.diverging:
                self.drop(progress)
                yield Arrival(progress=progress, partition_error=partition, reply=accepted.reply)
            elif len(partition.records):
                arrival = self.accept_records(progress, partition)
                if progress.done:
                    self.drop(progress)
                else:
                    self.fetcher.set_position(progress.tp, self._position(progress))
                yield arrival

    def accept_records(self, progress: RangeProgress, partition: PartitionReply) -> Arrival:
        """Move a range behind the complete batches of a reply to its position.

        Returns the arrival with the records.
        """
        end = progress.end if self.skip_corrupt else None
        complete = extent(partition.records, progress.offset, end=end)
        if self.skip_corrupt and complete.batches:
            # The next fetch reads a last batch whose end is uncertain. No later range may use it.
            partition = replace(partition, records=partition.records[: complete.size])
        records = progress.slice(partition.records, partition.aborted)
        progress.advance(complete)
        if progress.done:
            self.on_range_done(progress, partition)
        return Arrival(progress=progress, records=records, next_offset=progress.offset)

    def _start_next(self, tp: TopicPartition) -> None:
        """Start the next range of a partition, or remove the partition from the session."""
        queue = self._queues[tp]
        if queue:
            self._start(queue[0])
        else:
            del self._queues[tp]
            self.fetcher.set_position(tp, None)

    def _start(self, progress: RangeProgress) -> None:
        progress.requested_at = time.monotonic()
        self.fetcher.set_position(progress.tp, self._position(progress))

    def _session_restarted(self) -> list[Arrival]:
        """The next request opens a new session. Twice in a row, the broker has a problem."""
        self._session_restarts += 1
        if self._session_restarts < 2:
            return []
        return self.fail(ConnectionLost(f"{self.broker} refuses every fetch: {self.fetcher!r}"))

    def _position(self, progress: RangeProgress) -> FetchPosition:
        return progress.position(self.partition_max_bytes)
