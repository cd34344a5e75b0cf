"""One broker's partitions being read: from a fetcher's replies to records of ranges.

A lane belongs to one thread. It keeps the ranges of each partition in line, because a session has
one position per partition: the first is read, the others wait. A range whose partition is in
trouble leaves the lane, for its reader to decide; that also keeps it from waking the broker's long
poll again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kfetch.errors import ConnectionLost, KfetchError, WireError
from kfetch.fetch.fetcher import AcceptedReply, Fetcher
from kfetch.fetch.progress import RangeProgress
from kfetch.model import Broker, FetchPosition, TopicPartition
from kfetch.records import Slice, extent
from kfetch.replies import FetchReply, PartitionReply


def _keep() -> None:
    """The memory of the records is not counted."""


def _nothing(_progress: RangeProgress, _partition: PartitionReply) -> None:
    """What lies behind a range is of no use to anyone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Something that happened to a range: records came, or trouble, or its broker is lost."""

    progress: RangeProgress
    records: Slice | None = None
    next_offset: int = -1
    """Position behind ``records``."""
    trouble: PartitionReply | None = None
    """The partition's error or divergence; the range has left the lane."""
    reply: FetchReply | None = None
    """The reply that ``trouble`` is of: it may name the new leader."""
    cause: KfetchError | None = None
    """Why the broker can't be asked; the range has left the lane."""
    release: Callable[[], None] = _keep
    """Gives the memory of ``records`` back to the budget; once is enough, twice is harmless."""

    @property
    def advanced(self) -> bool:
        """Whether the records brought the range forward."""
        return self.records is not None and self.next_offset > self.records.start


@dataclass(slots=True)
class BrokerReader:
    """The ranges read from one broker."""

    fetcher: Fetcher
    partition_max_bytes: int
    spare: Callable[[RangeProgress, PartitionReply], None] = _nothing
    """Told of a range that is done, with a reply that may hold more than the range."""
    skip_corrupt: bool = False
    """Whether damaged batches are left out: then the position behind one must be sure."""
    _lines: dict[TopicPartition, list[RangeProgress]] = field(default_factory=dict)
    _fruitless: int = 0

    @property
    def broker(self) -> Broker:
        """Whom it reads from."""
        return self.fetcher.broker

    @property
    def active(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._lines)

    @property
    def partitions(self) -> int:
        """How many partitions are read."""
        return len(self._lines)

    @property
    def pause_s(self) -> float:
        """How long the broker wants to be left alone, in seconds."""
        return self.fetcher.pause_s()

    @property
    def in_flight(self) -> bool:
        """Whether a request waits for its reply."""
        return self.fetcher.in_flight

    def add(self, progress: RangeProgress) -> None:
        """Read a range, behind those of the same partition that came before."""
        line = self._lines.setdefault(progress.tp, [])
        line.append(progress)
        if len(line) == 1:
            self._ask(progress)

    def waits_in_line(self, progress: RangeProgress) -> bool:
        """Whether a range is behind another one of its partition. Any thread may ask."""
        return next(iter(self._lines.get(progress.tp, ())), progress) is not progress

    def drop(self, progress: RangeProgress) -> None:
        """Read a range no longer, wherever it stands."""
        line = self._lines.get(progress.tp, [])
        # By identity: two tasks may read the same range at once.
        at = next((i for i, other in enumerate(line) if other is progress), None)
        if at is None:
            return
        del line[at]
        if at == 0:
            self._next(progress.tp)

    def send(self, deadline: float) -> list[Arrival]:
        """Send the next request if there is anything to read; what is lost if it fails."""
        if not self.active:
            return []
        try:
            self.fetcher.send(deadline)
        except (ConnectionLost, WireError) as cause:
            return self.fail(cause)
        return []

    def receive(self, deadline: float) -> list[Arrival]:
        """Wait for the reply in flight. Its records are views: see ``Fetcher``."""
        try:
            fetched = self.fetcher.receive(deadline)
        except (ConnectionLost, WireError) as cause:
            return self.fail(cause)
        if fetched is None:
            return self._begin_again()
        self._fruitless = 0
        arrivals = [*self._taken(fetched)]
        if not any(arrival.advanced for arrival in arrivals):
            self.fetcher.calm()
        return arrivals

    def fail(self, cause: KfetchError) -> list[Arrival]:
        """Give every range back to its reader, with the cause."""
        gone = [progress for line in self._lines.values() for progress in line]
        for progress in gone:
            self.drop(progress)
        return [Arrival(progress=progress, cause=cause) for progress in gone]

    def _taken(self, fetched: AcceptedReply) -> Iterable[Arrival]:
        for tp, partition in fetched.partitions.items():
            progress = self._lines.get(tp, [None])[0]
            # A range that came after the request left is not what the reply answers.
            if progress is None or fetched.offsets[tp] != progress.offset:
                continue
            if partition.error or partition.diverging:
                self.drop(progress)
                yield Arrival(progress=progress, trouble=partition, reply=fetched.reply)
            elif len(partition.records):
                arrival = self.take(progress, partition)
                if progress.done:
                    self.drop(progress)
                else:
                    self.fetcher.want(progress.tp, self._position(progress))
                yield arrival

    def take(self, progress: RangeProgress, partition: PartitionReply) -> Arrival:
        """Bring a range forward by records that answer its position."""
        end = progress.end if self.skip_corrupt else None
        found = extent(partition.records, progress.offset, end=end)
        if self.skip_corrupt and found.batches:
            # Nor is a last batch that is left to the next fetch to be spared for a later range.
            partition = replace(partition, records=partition.records[: found.size])
        records = progress.slice(partition.records, partition.aborted)
        progress.advance(found)
        if progress.done:
            self.spare(progress, partition)
        return Arrival(progress=progress, records=records, next_offset=progress.offset)

    def _next(self, tp: TopicPartition) -> None:
        """The first in line is gone: read the next one, or the partition no longer."""
        line = self._lines[tp]
        if line:
            self._ask(line[0])
        else:
            del self._lines[tp]
            self.fetcher.want(tp, None)

    def _ask(self, progress: RangeProgress) -> None:
        progress.asked_since = time.monotonic()
        self.fetcher.want(progress.tp, self._position(progress))

    def _begin_again(self) -> list[Arrival]:
        """The session is to begin again. Once is routine, twice running is a broker in trouble."""
        self._fruitless += 1
        if self._fruitless < 2:
            return []
        return self.fail(ConnectionLost(f"{self.broker} refuses every fetch: {self.fetcher!r}"))

    def _position(self, progress: RangeProgress) -> FetchPosition:
        return progress.position(self.partition_max_bytes)
