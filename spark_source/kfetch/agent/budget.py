"""The agent's memory: raw replies and decoded batches together, under one limit.

A fetch reserves what its reply may take; a full budget sends no request, and the session stays as
it is. One fetch passes whatever its size when no reply is in use: segments are given back by
workers, which wait for records, so a fetch that waited for segments could wait for itself. What is
kept in the hope that it is of use (``keep``) goes, the oldest first, as soon as a fetch needs room.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator

from kfetch.fetch.limits import BATCH_BYTES

# Two segments per reader, a batch being decoded, and the reply that it comes from: with so many
# parts of the budget for each reader all of it fits.
_PARTS = 8
_BATCH_BYTES_MIN = 64 << 10
_DECODERS_MIN = 2
# Of the limit: one reply leaves room for the next one, and for the segments of the readers.
_FRAME_PART = 8

_Key = tuple[Hashable, Hashable]
"""(Owner, what): of something that is kept."""


class Budget:
    """Bytes in use out of ``limit``: frames (raw replies), segments, and what is kept. Any thread
    may use it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._frames = 0
        self._segments = 0
        self._kept: OrderedDict[_Key, tuple[int, object]] = OrderedDict()
        self._kept_bytes = 0
        self._peak = 0
        self._readers = 0
        # Who waits, in order of arrival: a small request that overtook would starve a large one.
        self._line: dict[object, None] = {}
        self._changed = threading.Condition()
        # While a batch is decoded no account knows its memory. More at once than there are
        # processors would be no faster, and more than fit into a part of the limit too much.
        places = min(_processors(), max(_DECODERS_MIN, limit // (_PARTS * BATCH_BYTES)))
        self._decoders = threading.BoundedSemaphore(places)

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._frames + self._segments + self._kept_bytes

    @property
    def peak(self) -> int:
        """Most bytes that were ever in use."""
        return self._peak

    @property
    def limit(self) -> int:
        """Bytes that may be in use."""
        return self._limit

    @property
    def short(self) -> bool:
        """Whether somebody waits for memory."""
        with self._changed:
            return bool(self._line)

    @property
    def batch_bytes(self) -> int:
        """Raw bytes for one Arrow batch: less than usual where many readers share little memory."""
        with self._changed:
            fair = self._limit // (_PARTS * max(1, self._readers))
        return max(_BATCH_BYTES_MIN, min(BATCH_BYTES, fair))

    @property
    def frame_bytes(self) -> int:
        """The most that one reply should bring, in bytes."""
        return max(_BATCH_BYTES_MIN, self._limit // _FRAME_PART)

    @contextlib.contextmanager
    def decoding(self) -> Iterator[None]:
        """One of the few who decode a batch at this moment; never wait for others in here."""
        with self._decoders:
            yield

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Somebody reads, and shares the memory with the others."""
        self._count_readers(1)
        try:
            yield
        finally:
            self._count_readers(-1)

    def _count_readers(self, change: int) -> None:
        with self._changed:
            self._readers += change

    def has(self, size: int) -> bool:
        """Whether so many bytes are free, or kept for nobody."""
        with self._changed:
            return self.used - self._kept_bytes + size <= self._limit

    def raise_limit(self, limit: int) -> None:
        """Allow at least so much: the largest wish of all queries counts."""
        with self._changed:
            self._limit = max(self._limit, limit)
            self._changed.notify_all()

    def reserve(self, size: int, timeout_s: float, waiter: object = None) -> Reservation | None:
        """Take ``size`` bytes for a frame if they are free, or if no frame is in use; None if not
        so within the time. A ``waiter`` then keeps its place in the line until it ``leave``s."""
        place = object() if waiter is None else waiter
        with self._changed:
            self._line.setdefault(place)
            fits = self._changed.wait_for(lambda: self._may(place, size), timeout_s)
            if fits or waiter is None:
                self._leave(place)
            return self._take_frame(size) if fits else None

    def leave(self, waiter: object) -> None:
        """Want no memory any more, so as to stand in nobody's way."""
        with self._changed:
            self._leave(waiter)

    def charge(self, size: int) -> Reservation:
        """Take ``size`` bytes for a segment, whatever is free: a reader's first must not wait."""
        with self._changed:
            self._segments += size
            self._make_room(0)
            self._peak = max(self._peak, self.used)
        return Reservation(self._give_segments, size)

    def keep(self, key: _Key, size: int, value: object) -> None:
        """Keep a value of ``size`` bytes until ``take_back``, or until somebody needs the room."""
        with self._changed:
            self._forget(key)
            self._kept[key] = size, value
            self._kept_bytes += size
            self._make_room(0)
            self._peak = max(self._peak, self.used)

    def take_back(self, key: _Key) -> tuple[object, Reservation] | None:
        """A value that was kept, its bytes now those of a frame; None if it had to go."""
        with self._changed:
            if key not in self._kept:
                return None
            size, value = self._kept[key]
            self._forget(key)
            return value, self._take_frame(size)

    def drop(self, owner: Hashable) -> None:
        """Keep nothing of this owner's any longer."""
        with self._changed:
            for key in [key for key in self._kept if key[0] is owner]:
                self._forget(key)
            self._changed.notify_all()

    def _forget(self, key: _Key) -> None:
        if key in self._kept:
            self._kept_bytes -= self._kept.pop(key)[0]

    def _make_room(self, size: int) -> None:
        while self._kept and self.used + size > self._limit:
            self._forget(next(iter(self._kept)))

    def _may(self, place: object, size: int) -> bool:
        if next(iter(self._line)) is not place:
            return False
        self._make_room(size)
        return self._frames == 0 or self.used + size <= self._limit

    def _leave(self, place: object) -> None:
        if place in self._line:
            del self._line[place]
            self._changed.notify_all()

    def _take_frame(self, size: int) -> Reservation:
        self._frames += size
        self._peak = max(self._peak, self.used)
        return Reservation(self._give_frames, size)

    def _give_frames(self, size: int) -> None:
        with self._changed:
            self._frames -= size
            self._changed.notify_all()

    def _give_segments(self, size: int) -> None:
        with self._changed:
            self._segments -= size
            self._changed.notify_all()


def _processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class Reservation:
    """Bytes taken from a budget, given back once. Shared by as many as ``share`` says."""

    def __init__(self, give: Callable[[int], None], size: int) -> None:
        self._give = give
        self._size = size
        self._shares = 1
        self._lock = threading.Lock()

    def resize(self, size: int) -> None:
        """The memory turned out to be another size: less of it as a rule."""
        self._give(self._size - size)
        self._size = size

    def share(self, count: int) -> None:
        """Give the memory back after so many releases; at once for none."""
        with self._lock:
            self._shares = count
        if count == 0:
            self._return()

    def release(self) -> None:
        """One of those who share it is done."""
        with self._lock:
            self._shares -= 1
            last = self._shares == 0
        if last:
            self._return()

    def holder(self) -> Callable[[], None]:
        """A release for one of those who share it, that counts once however often it is called."""
        left = [self]

        def release() -> None:
            if left:
                left.pop().release()

        return release

    def _return(self) -> None:
        self._give(self._size)
        self._size = 0
