"""The agent's memory: raw replies, decoded batches and cached records, under one limit.

A request reserves the memory that its reply may need. While the budget is full no request leaves,
and the session stays as it is. If no reply is in memory, one request may leave whatever its size.
Workers return segments only when they get records. So a request that waited for segments could wait
for itself. Cached records (``cache``) are dropped, the oldest first, when a reservation needs room.
An eighth of the limit is for decoders: no request takes it, unless no reply is in memory.

A decoder reserves the bytes that it unpacks and the rows that it writes. If they don't fit, it
waits. If no other decoder runs, the first in the queue goes on whatever its size. It decodes one
part of a reply, which takes a fair share of the budget, or one record batch that takes more. The
latter goes on only if no other reader has such a batch in memory. Until then it delays nobody.
"""

from __future__ import annotations

import contextlib
import operator
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from functools import partial

_BATCH_BYTES = 4 << 20
"""Raw bytes that become one Arrow batch. Measured with the drain benchmark; see docs/decisions."""
_PART_BYTES = 4 * _BATCH_BYTES
"""Bytes of unpacked records and rows in one Arrow batch. Text shrinks to about a quarter."""
# Each reader needs two segments, a batch that is being decoded, and the reply that it comes from.
# With so many parts of the budget per reader all of that fits.
_PARTS_PER_READER = 8
_BATCH_BYTES_MIN = 64 << 10
_DECODERS_MIN = 2
# One reply may take this part of the limit. The next reply and the readers' segments need the rest.
_REPLY_PART = 8
# Each reader may hold a reply. Without this part, the replies of 8 readers or 6 brokers fill the
# budget, and decoders run one after the other.
_DECODER_PART = 8
# What allocators keep is as much as the agent has used in the last second. Up to this part of the
# limit, both together stay far below it.
_FREE_PAGES_PART = 4

_Key = tuple[Hashable, Hashable]
"""(owner, name) of a cached value."""


class Budget:
    """Bytes in use below a limit: replies, segments and cached values. Any thread may use it.

    One lock guards all of its numbers, and each rule of admission reads most of them. So they stand
    in one class.
    """

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
        # More decoders than processors would not be faster, and more than a part of the limit can
        # hold would wait for memory.
        by_memory = max(_DECODERS_MIN, limit // (_PARTS_PER_READER * _BATCH_BYTES))
        self._decoders_max = min(_processors(), by_memory)
        self._decoders_running = 0
        self._decoder_bytes = 0
        self._idle_decoders = 0
        self._idle_reply_bytes = 0
        """The replies in memory when the last decoder became idle: theirs, and maybe others."""
        self._decoder_queue: dict[object, tuple[int, int]] = {}
        """Waiting decoders in order of arrival: the bytes that each waits for, and its total."""
        self._segments: dict[object, int] = {}
        """The bytes of each reservation that ``charge`` has made."""

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._reply_bytes + self._segment_bytes + self._decoder_bytes + self._cache_bytes

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
        """Whether any request or decoder waits for memory."""
        with self._changed:
            return bool(self._queue) or any(size for size, _ in self._decoder_queue.values())

    @property
    def needs_free_pages(self) -> bool:
        """Whether allocators are to return what they keep: it counts for nobody, and adds up."""
        return self.has_waiters or self.used > self._limit // _FREE_PAGES_PART

    @property
    def readers(self) -> int:
        """How many readers share the memory."""
        return self._readers

    @property
    def batch_bytes(self) -> int:
        """Raw bytes for one Arrow batch; fewer if many readers share little memory."""
        return self._fair_share(_BATCH_BYTES)

    @property
    def part_bytes(self) -> int:
        """Bytes of unpacked records and rows for one Arrow batch."""
        return self._fair_share(_PART_BYTES)

    def _fair_share(self, most: int) -> int:
        with self._changed:
            share = self._limit // (_PARTS_PER_READER * max(1, self._readers))
        return max(_BATCH_BYTES_MIN, min(most, share))

    @property
    def reply_bytes_max(self) -> int:
        """Bytes that one reply should bring at most."""
        return max(_BATCH_BYTES_MIN, self._limit // _REPLY_PART)

    def run_decoder(self, decoder: object, size: int, total: int, timeout_s: float) -> bool:
        """Let a decoder run with ``size`` more bytes, ``total`` in all, as soon as it may.

        Returns False if that takes longer than ``timeout_s`` seconds. The decoder then keeps its
        place in the queue until it calls ``stop_decoder``.
        """
        with self._changed:
            self._decoder_queue[decoder] = size, total
            may_run = self._changed.wait_for(lambda: self._may_run(decoder, size), timeout_s)
            if may_run:
                del self._decoder_queue[decoder]
                self._decoders_running += 1
                self._add_decoder_bytes(size)
                self._changed.notify_all()  # the next one in the queue may run, too
            return may_run

    def grow_decoder(self, size: int, total: int) -> bool:
        """Give a running decoder ``size`` more bytes, ``total`` in all, if they are free.

        Returns whether they are. A decoder without memory does not overtake those that wait.
        """
        with self._changed:
            fits = self._fits(size) and (total > size or not self._decoder_waits)
            if fits:
                self._make_room(size)
                self._add_decoder_bytes(size)
            return fits

    def shrink_decoder(self, size: int) -> None:
        """Take ``size`` bytes back from a running decoder."""
        with self._changed:
            self._decoder_bytes -= size
            self._changed.notify_all()

    def pause_decoder(self) -> None:
        """Count a running decoder, which keeps its memory, as waiting."""
        with self._changed:
            self._decoders_running -= 1
            self._changed.notify_all()

    @contextlib.contextmanager
    def idle_decoder(self) -> Iterator[None]:
        """A context in which a decoder waits for another service. It keeps its memory, and pauses.

        Meanwhile one request more may leave: the replies of idle decoders count as none.
        """
        self._count_idle(1)
        try:
            yield
        finally:
            self._count_idle(-1)

    def _count_idle(self, change: int) -> None:
        with self._changed:
            self._decoders_running -= max(0, change)
            self._idle_decoders += change
            if change > 0 or not self._idle_decoders:
                self._idle_reply_bytes = self._reply_bytes if self._idle_decoders else 0
            self._changed.notify_all()

    def stop_decoder(self, decoder: object, size: int) -> None:
        """End a decoder, which may wait or run, and take back all of its ``size`` bytes."""
        with self._changed:
            if self._decoder_queue.pop(decoder, None) is None:
                self._decoders_running -= 1
            self._decoder_bytes -= size
            self._changed.notify_all()

    @property
    def _decoder_waits(self) -> bool:
        """Whether a decoder waits that may have the next free memory."""
        waiting = self._decoder_queue.values()
        return any(size and not self._must_wait(size, total) for size, total in waiting)

    def _add_decoder_bytes(self, size: int) -> None:
        self._decoder_bytes += size
        self._peak = max(self._peak, self.used)

    def _may_run(self, decoder: object, size: int) -> bool:
        if self._decoders_running >= self._decoders_max:
            return False
        if self._next_decoder() is not decoder:
            return False
        fits = not size or self._fits(size) or not self._decoders_running
        if fits:
            self._make_room(size)
        return fits

    def _next_decoder(self) -> object:
        """Returns the first in the queue. Decoders that have memory come before the others."""
        candidates = [d for d, sizes in self._decoder_queue.items() if not self._must_wait(*sizes)]
        with_memory = (d for d in candidates if operator.lt(*self._decoder_queue[d]))
        return next(with_memory, next(iter(candidates), None))

    def _must_wait(self, size: int, total: int) -> bool:
        """Whether a decoder needs so much that it waits until no other reader has as much."""
        large = max(self._limit // _PARTS_PER_READER, 2 * _BATCH_BYTES)
        if total <= 2 * large or self._fits(size):
            return False
        return any(size > large for size in self._segments.values())

    def _fits(self, size: int) -> bool:
        return self.used - self._cache_bytes + size <= self._limit

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
            return self._fits(size)

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
            key = object()
            self._segments[key] = size
            self._make_room(0)
            self._peak = max(self._peak, self.used)
        return Reservation(partial(self._return_segment_bytes, key), size)

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
        if self._reply_bytes <= self._idle_reply_bytes:
            return True
        kept = max(0, self._limit // _DECODER_PART - self._decoder_bytes)
        return not self._decoder_waits and self._fits(kept + size)

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

    def _return_segment_bytes(self, key: object, size: int) -> None:
        with self._changed:
            self._segment_bytes -= size
            self._segments[key] -= size
            if not self._segments[key]:
                del self._segments[key]
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
        """Give the memory back after ``count`` releases; with 0, at once."""
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
