"""The agent's memory: raw replies, decoded batches and cached records, under one limit.

A request reserves the memory that its reply may need. While the budget is full no request leaves,
and the session stays as it is. If no reply is in memory, one request may leave whatever its size.
Workers return segments only when they get records. So a request that waited for segments could wait
for itself. Cached records (``cache``) are dropped, the oldest first, when a reservation needs room.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator

from kfetch.fetch.limits import BATCH_BYTES

# Each reader needs two segments, a batch that is being decoded, and the reply that it comes from.
# With so many parts of the budget per reader all of that fits.
_PARTS_PER_READER = 8
_BATCH_BYTES_MIN = 64 << 10
_DECODERS_MIN = 2
# One reply may take this part of the limit. The next reply and the readers' segments need the rest.
_REPLY_PART = 8

_Key = tuple[Hashable, Hashable]
"""(owner, name) of a cached value."""


class Budget:
    """Bytes in use below a limit: replies, segments and cached values. Any thread may use it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reply_bytes = 0
        self._segment_bytes = 0
        self._cache: OrderedDict[_Key, tuple[int, object]] = OrderedDict()
        self._cache_bytes = 0
        self._peak = 0
        self._readers = 0
        # Waiting requests, in order of arrival: small ones must not overtake a large one for ever.
        self._queue: dict[object, None] = {}
        self._changed = threading.Condition()
        # The budget does not count a batch while it is being decoded. More decoders than processors
        # would not be faster, and more than a part of the limit can hold would take too much.
        by_memory = max(_DECODERS_MIN, limit // (_PARTS_PER_READER * BATCH_BYTES))
        self._decoders = threading.BoundedSemaphore(min(_processors(), by_memory))

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._reply_bytes + self._segment_bytes + self._cache_bytes

    @property
    def peak(self) -> int:
        """The most bytes that were ever in use."""
        return self._peak

    @property
    def limit(self) -> int:
        """Bytes that may be in use."""
        return self._limit

    @property
    def has_waiters(self) -> bool:
        """Whether any request waits for memory."""
        with self._changed:
            return bool(self._queue)

    @property
    def batch_bytes(self) -> int:
        """Raw bytes for one Arrow batch; fewer if many readers share little memory."""
        with self._changed:
            fair_share = self._limit // (_PARTS_PER_READER * max(1, self._readers))
        return max(_BATCH_BYTES_MIN, min(BATCH_BYTES, fair_share))

    @property
    def reply_bytes_max(self) -> int:
        """Bytes that one reply should bring at most."""
        return max(_BATCH_BYTES_MIN, self._limit // _REPLY_PART)

    @contextlib.contextmanager
    def decoding(self) -> Iterator[None]:
        """A context to decode one batch in. Never wait for another reader inside."""
        with self._decoders:
            yield

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A context to read in: the readers share the memory."""
        self._count_readers(1)
        try:
            yield
        finally:
            self._count_readers(-1)

    def _count_readers(self, change: int) -> None:
        with self._changed:
            self._readers += change

    def has_room(self, size: int) -> bool:
        """Whether ``size`` bytes are free, or would be without cached values."""
        with self._changed:
            return self.used - self._cache_bytes + size <= self._limit

    def raise_limit(self, limit: int) -> None:
        """Raise the limit to ``limit`` bytes, if it is lower: the largest of all queries counts."""
        with self._changed:
            self._limit = max(self._limit, limit)
            self._changed.notify_all()

    def reserve(self, size: int, timeout_s: float, waiter: object = None) -> Reservation | None:
        """Reserve ``size`` bytes for a reply, as soon as they are free or no reply is in memory.

        Returns None if that takes longer than ``timeout_s`` seconds. A ``waiter`` then keeps its
        place in the queue until it calls ``leave_queue``.
        """
        place = object() if waiter is None else waiter
        with self._changed:
            self._queue.setdefault(place)
            fits = self._changed.wait_for(lambda: self._may_reserve(place, size), timeout_s)
            if fits or waiter is None:
                self._leave_queue(place)
            return self._reserve_reply(size) if fits else None

    def leave_queue(self, waiter: object) -> None:
        """Stop waiting for memory, so that the next one in the queue can have it."""
        with self._changed:
            self._leave_queue(waiter)

    def charge(self, size: int) -> Reservation:
        """Reserve ``size`` bytes for a segment at once: a reader's first segment must not wait."""
        with self._changed:
            self._segment_bytes += size
            self._make_room(0)
            self._peak = max(self._peak, self.used)
        return Reservation(self._return_segment_bytes, size)

    def cache(self, key: _Key, size: int, value: object) -> None:
        """Cache a value of ``size`` bytes until ``take_cached``, or until others need the room."""
        with self._changed:
            self._drop_cached(key)
            self._cache[key] = size, value
            self._cache_bytes += size
            self._make_room(0)
            self._peak = max(self._peak, self.used)

    def take_cached(self, key: _Key) -> tuple[object, Reservation] | None:
        """Remove a value from the cache; None if it is not there.

        Returns the value, and a reservation of its bytes as those of a reply.
        """
        with self._changed:
            if key not in self._cache:
                return None
            size, value = self._cache[key]
            self._drop_cached(key)
            return value, self._reserve_reply(size)

    def drop_cached(self, owner: Hashable) -> None:
        """Drop all cached values of an owner."""
        with self._changed:
            for key in [key for key in self._cache if key[0] is owner]:
                self._drop_cached(key)
            self._changed.notify_all()

    def _drop_cached(self, key: _Key) -> None:
        if key in self._cache:
            self._cache_bytes -= self._cache.pop(key)[0]

    def _make_room(self, size: int) -> None:
        while self._cache and self.used + size > self._limit:
            self._drop_cached(next(iter(self._cache)))

    def _may_reserve(self, place: object, size: int) -> bool:
        if next(iter(self._queue)) is not place:
            return False
        self._make_room(size)
        return self._reply_bytes == 0 or self.used + size <= self._limit

    def _leave_queue(self, place: object) -> None:
        if place in self._queue:
            del self._queue[place]
            self._changed.notify_all()

    def _reserve_reply(self, size: int) -> Reservation:
        self._reply_bytes += size
        self._peak = max(self._peak, self.used)
        return Reservation(self._return_reply_bytes, size)

    def _return_reply_bytes(self, size: int) -> None:
        with self._changed:
            self._reply_bytes -= size
            self._changed.notify_all()

    def _return_segment_bytes(self, size: int) -> None:
        with self._changed:
            self._segment_bytes -= size
            self._changed.notify_all()


def _processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class Reservation:
    """Bytes of a budget, returned once: by the last of as many releases as ``share`` says."""

    def __init__(self, return_bytes: Callable[[int], None], size: int) -> None:
        self._return_bytes = return_bytes
        self._size = size
        self._releases_left = 1
        self._lock = threading.Lock()

    def resize(self, size: int) -> None:
        """Change the size to ``size`` bytes, because the memory needs fewer or more."""
        self._return_bytes(self._size - size)
        self._size = size

    def share(self, count: int) -> None:
        """Return the memory after ``count`` releases; with 0, at once."""
        with self._lock:
            self._releases_left = count
        if count == 0:
            self._return_all()

    def release(self) -> None:
        """Count one release, and return the memory if it is the last one."""
        with self._lock:
            self._releases_left -= 1
            last = self._releases_left == 0
        if last:
            self._return_all()

    def single_release(self) -> Callable[[], None]:
        """Returns a function that releases once, however often it is called."""
        unreleased = [self]

        def release() -> None:
            if unreleased:
                unreleased.pop().release()

        return release

    def _return_all(self) -> None:
        self._return_bytes(self._size)
        self._size = 0
