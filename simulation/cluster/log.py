"""One replica's log: record batches with leader epochs, high watermark, transactions, truncation.

Batches are bytes as a broker keeps them. Replicas share the batch objects. A broker cuts what it
sends at a number of bytes, so a reply may end with a part of a batch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

UNDEFINED = -1
SEGMENT_MS = 7 * 24 * 3600 * 1000
"""A batch that is so much younger than its segment begins a new one: Kafka's default."""
NO_END = (UNDEFINED, UNDEFINED)


class Batch(NamedTuple):
    """A record batch in a log."""

    base: int
    last: int
    epoch: int
    time_ms: int
    """The largest timestamp."""
    data: bytes
    values: tuple[bytes, ...]
    """The values of the records; empty for a marker of a transaction."""
    producer: int = -1
    transactional: bool = False
    aborts: bool | None = None
    """Whether it is the marker that aborts, or that commits, a transaction; None: records."""


class Aborted(NamedTuple):
    """A transaction that was aborted."""

    producer: int
    first: int
    last: int


class Log:
    """The batches of one replica."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.bases: list[int] = []
        self._places: list[int] = []
        """Where each batch begins, in bytes since the log was made."""
        self._size = 0
        self.start = 0
        self.end = 0
        self.high_watermark = 0
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, first offset), in order."""
        self.open: dict[int, int] = {}
        """Running transactions: the producer, and the first offset."""
        self.aborted: list[Aborted] = []
        self.rolls: list[int] = []
        """The first offset of each segment but the first one. One read stays in one segment."""

    @property
    def last_stable(self) -> int:
        """The last stable offset: before it, each transaction has ended."""
        if not self.open:
            return self.high_watermark
        return min(self.high_watermark, min(self.open.values()))

    # -- changes ---------------------------------------------------------------------------

    def begin_epoch(self, epoch: int) -> None:
        """Note that a leader of this epoch writes from here on. Earlier empty epochs vanish."""
        self._note_epoch(epoch, self.end)

    def append(self, batch: Batch) -> None:
        """Add a batch at the end."""
        if not self.epochs or self.epochs[-1][0] != batch.epoch:
            self._note_epoch(batch.epoch, batch.base)
        if self.batches and batch.time_ms - self._first_time() > SEGMENT_MS:
            self.rolls.append(batch.base)
        self.batches.append(batch)
        self.bases.append(batch.base)
        self._places.append(self._size)
        self._size += len(batch.data)
        self.end = batch.last + 1
        if batch.transactional:
            self._follow_transaction(batch)

    def truncate(self, end: int) -> None:
        """Drop all batches from an offset on, as a follower of a new leader does."""
        if end >= self.end:
            return
        count = bisect_left(self.bases, end)
        if count and self.batches[count - 1].last >= end:
            count -= 1  # a broker keeps whole batches only
        self._size = self._places[count] if count < len(self._places) else self._size
        del self.batches[count:], self.bases[count:], self._places[count:]
        self.end = max(self.batches[-1].last + 1 if self.batches else self.start, self.start)
        self.end = min(self.end, max(end, self.start))
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end]
        self.rolls = [first for first in self.rolls if first < self.end]
        self.high_watermark = min(self.high_watermark, self.end)
        self.open, self.aborted = {}, []
        for batch in self.batches:
            if batch.transactional:
                self._follow_transaction(batch)

    def move_start(self, offset: int) -> None:
        """Delete the records before an offset: retention, or DeleteRecords."""
        if offset <= self.start:
            return
        self.start = offset
        count = bisect_right(self.bases, offset)
        while count and self.batches[count - 1].last >= offset:
            count -= 1
        del self.batches[:count], self.bases[:count], self._places[:count]
        if self.end < offset:
            self.end = offset
        self.high_watermark = max(self.high_watermark, offset)
        kept = [entry for entry in self.epochs if entry[1] > offset]
        if len(kept) < len(self.epochs):
            kept.insert(0, (self.epochs[-len(kept) - 1][0], offset))
        self.epochs = kept
        self.aborted = [one for one in self.aborted if one.last >= offset]

    def restart_at(self, offset: int) -> None:
        """Begin anew at an offset, as a replica does that has nothing of its leader's log."""
        self.batches, self.bases, self._places = [], [], []
        self.start = self.end = self.high_watermark = offset
        self.epochs, self.open, self.aborted, self.rolls = [], {}, [], []

    def roll(self) -> None:
        """Begin a new segment, as a full one demands."""
        if self.batches and self.end not in self.rolls:
            self.rolls.append(self.end)

    def _first_time(self) -> int:
        """Returns the time of the last segment's first batch."""
        first = self.first_at(self.rolls[-1]) if self.rolls else 0
        return self.batches[min(first, len(self.batches) - 1)].time_ms

    def _note_epoch(self, epoch: int, offset: int) -> None:
        offset = max(offset, self.start)  # the log may start within its first batch
        while self.epochs and (self.epochs[-1][0] >= epoch or self.epochs[-1][1] >= offset):
            self.epochs.pop()
        self.epochs.append((epoch, offset))

    def _follow_transaction(self, batch: Batch) -> None:
        if batch.aborts is None:
            self.open.setdefault(batch.producer, batch.base)
            return
        first = self.open.pop(batch.producer, None)
        if first is not None and batch.aborts:
            self.aborted.append(Aborted(batch.producer, first, batch.last))

    # -- questions -------------------------------------------------------------------------

    def first_at(self, offset: int) -> int:
        """Returns the index of the batch that has an offset, or of the next one."""
        index = bisect_right(self.bases, offset) - 1
        if index < 0 or self.batches[index].last < offset:
            index += 1
        return index

    def has(self, batch: Batch) -> bool:
        """Returns whether the log has this very batch."""
        at = self.first_at(batch.base)
        return at < len(self.batches) and self.batches[at] is batch

    def bytes_between(self, offset: int, limit: int) -> int:
        """Returns how many bytes a read from an offset up to a limit has."""
        first, last = self.first_at(offset), bisect_left(self.bases, limit)
        if last <= first:
            return 0
        return self._place(last) - self._places[first]

    def read(self, offset: int, limit: int, bytes_max: int, *, whole_first: bool) -> bytes:
        """Returns the bytes from the batch with an offset on, up to an offset and a size.

        ``whole_first``: the first batch comes whatever its size.
        """
        batches = self.batches
        index, stop = self.first_at(offset), bisect_left(self.bases, limit)
        if stop <= index:
            return b""
        if self.rolls:
            stop = min(stop, bisect_left(self.bases, self.segment_end(self.bases[index])))
        first = batches[index].data
        if len(first) > bytes_max:
            return first if whole_first else b""
        if stop - index == 1:
            return first
        data = b"".join([batch.data for batch in batches[index:stop]])
        return data if len(data) <= bytes_max else data[:bytes_max]

    def segment_end(self, offset: int) -> int:
        """Returns where the segment of an offset ends. The last one ends with the log."""
        return next((first for first in self.rolls if first > offset), self.end)

    def aborted_between(self, offset: int, data: bytes) -> list[tuple[int, int]]:
        """Returns (producer, first offset) of the aborted transactions within a read's bytes."""
        if not self.aborted or not data:
            return []
        index, left = self.first_at(offset), len(data)
        while left > 0 and index < len(self.batches):
            left -= len(self.batches[index].data)
            index += 1
        end = self.batches[index - 1].last + 1
        return [(a.producer, a.first) for a in self.aborted if a.last >= offset and a.first < end]

    def latest_epoch(self) -> int:
        """Returns the newest leader epoch, or -1."""
        return self.epochs[-1][0] if self.epochs else UNDEFINED

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Returns the largest epoch not above one, and where its records end (KIP-101)."""
        if epoch == UNDEFINED or not self.epochs:
            return NO_END
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        higher = next((entry for entry in self.epochs if entry[0] > epoch), None)
        if higher is None:
            return NO_END
        floor = max((entry[0] for entry in self.epochs if entry[0] <= epoch), default=epoch)
        return floor, higher[1]

    def at_time(self, time_ms: int) -> tuple[int, int, int] | None:
        """Returns offset, timestamp and epoch of the first record that is not before a time."""
        for batch in self.batches:
            if batch.time_ms >= time_ms and batch.last >= self.start:
                return max(batch.base, self.start), batch.time_ms, batch.epoch
        return None

    def newest_time(self) -> tuple[int, int, int] | None:
        """Returns offset, timestamp and epoch of the first record with the largest timestamp."""
        if not self.batches:
            return None
        newest = max(self.batches, key=lambda batch: batch.time_ms)
        return max(newest.base, self.start), newest.time_ms, newest.epoch

    def records(self, limit: int) -> list[tuple[int, bytes]]:
        """Returns the offsets and values before a limit, without those of aborted transactions."""
        found = []
        for batch in self.batches:
            if batch.base >= limit:
                break
            if batch.aborts is None and not self._is_aborted(batch):
                pairs = enumerate(batch.values, batch.base)
                found += [pair for pair in pairs if self.start <= pair[0] < limit]
        return found

    def _is_aborted(self, batch: Batch) -> bool:
        return batch.transactional and any(
            one.producer == batch.producer and one.first <= batch.base <= one.last
            for one in self.aborted
        )

    def _place(self, index: int) -> int:
        return self._places[index] if index < len(self._places) else self._size
