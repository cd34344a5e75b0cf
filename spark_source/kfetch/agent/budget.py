"""The agent's memory: raw replies, decoded batches and cached records, under one limit.

A request reserves the memory that its reply may need. A decoder reserves the bytes that it unpacks
and the rows that it writes. Both wait in one queue, under one rule (``_may_go_on``): the first of
its kind goes on if its bytes fit, or if nobody of its kind goes on now. Without the latter all
could wait for each other: workers return segments only when they get records, and decoders keep
what they have while they wait.

Decoders come first, and those among them that have memory: an end of their work frees the most. An
eighth of the limit is for decoders: no request takes it, unless no reply is in memory. A decoder
works on one part of a reply, which takes a fair share of the budget, or on one record batch that
takes more. The latter waits while another reader has such a batch in a segment, and delays nobody.
Cached records (``cache``) are dropped, the oldest first, when others need the room.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Literal, NamedTuple, get_args

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

# Tasks that write files keep rows of their own, a quarter of the limit together (delta/plan.py).
_WORKERS_PART = 2

_Key = tuple[Hashable, Hashable]
"""(owner, name) of a cached value."""
_Use = Literal["replies", "segments", "decoders", "cache", "workers"]


class _Wanted(NamedTuple):
    """What a request or a decoder waits for."""

    size: int
    total: int = 0
    """The bytes that a decoder then has, those from before included; 0 for a request."""
    decodes: bool = False


class Budget:
    """Bytes in use below a limit: replies, segments, cached values, and rows that workers keep.

    Any thread may use it.

    One lock guards all of its numbers, and the rule of admission reads most of them. So they stand
    in one class.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Bytes that may be in use."""
        self.used = 0
        """Bytes in use."""
        self.peak = 0
        """The most bytes that were ever in use."""
        self.readers = 0
        """How many readers share the memory."""
        self._bytes: dict[_Use, int] = dict.fromkeys(get_args(_Use), 0)
        self._segments: list[int] = []
        """The sizes of what ``charge`` has reserved."""
        self._cache: OrderedDict[_Key, tuple[int, object]] = OrderedDict()
        self._changed = threading.Condition()
        self._queue: dict[object, _Wanted] = {}
        """Waiting requests and decoders, in order of arrival."""
        self._processors = _processors()
        self._decoders_running = 0
        self._idle_decoders = 0
        self._idle_reply_bytes = 0
        """The replies in memory when the last decoder became idle: theirs, and maybe others."""

    @property
    def has_waiters(self) -> bool:
        """Whether any request or decoder waits for memory."""
        with self._changed:
            return any(one.size or not one.decodes for one in self._queue.values())

    @property
    def needs_free_pages(self) -> bool:
        """Whether allocators are to return what they keep: it counts for nobody, and adds up."""
        own = self.used - self._bytes["workers"]
        return self.has_waiters or own > self.limit // _FREE_PAGES_PART

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
            share = self.limit // (_PARTS_PER_READER * max(1, self.readers))
        return max(_BATCH_BYTES_MIN, min(most, share))

    @property
    def reply_bytes_max(self) -> int:
        """Bytes that one reply should bring at most."""
        return max(_BATCH_BYTES_MIN, self.limit // _REPLY_PART)

    @contextlib.contextmanager
    def reading(self, worker_bytes: int) -> Iterator[None]:
        """A context to read in: the readers share the memory.

        ``worker_bytes``: what the reader's worker keeps of its own meanwhile. All workers count as
        a part of the limit at most, so that the agent always has room to go on.
        """
        with self._changed:
            self.readers += 1
            room = self.limit // _WORKERS_PART - self._bytes["workers"]
            worker_bytes = max(0, min(worker_bytes, room))
            self._use("workers", worker_bytes)
        try:
            yield
        finally:
            with self._changed:
                self.readers -= 1
                self._use("workers", -worker_bytes)

    def has_room(self, size: int) -> bool:
        """Whether ``size`` bytes are free, or would be without cached values."""
        with self._changed:
            return self.used - self._bytes["cache"] + size <= self.limit

    def raise_limit(self, limit: int) -> None:
        """Raise the limit to ``limit`` bytes, if it is lower: the largest of all queries counts."""
        with self._changed:
            self.limit = max(self.limit, limit)
            self._changed.notify_all()

    def run_decoder(self, decoder: object, size: int, total: int, timeout_s: float) -> bool:
        """Let a decoder run with ``size`` more bytes, ``total`` in all, as soon as it may.

        Returns False if that takes longer than ``timeout_s`` seconds. The decoder then keeps its
        place in the queue until it calls ``stop_decoder``.
        """
        with self._changed:
            runs = self._wait(decoder, _Wanted(size, total, decodes=True), timeout_s)
            if runs:
                self._decoders_running += 1
                self._use("decoders", size)
            return runs

    def grow_decoder(self, size: int, total: int) -> bool:
        """Give a running decoder ``size`` more bytes, ``total`` in all, if they are free.

        Returns whether they are. A decoder without memory does not overtake those that wait.
        """
        with self._changed:
            fits = self.has_room(size) and (total > size or not self._decoder_waits)
            if fits:
                self._use("decoders", size)
            return fits

    def shrink_decoder(self, size: int) -> None:
        """Take ``size`` bytes back from a running decoder."""
        with self._changed:
            self._use("decoders", -size)

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
        with self._changed:
            self.pause_decoder()
            self._idle_decoders += 1
            self._idle_reply_bytes = self._bytes["replies"]
        try:
            yield
        finally:
            with self._changed:
                self._idle_decoders -= 1
                self._idle_reply_bytes *= self._idle_decoders > 0
                self._changed.notify_all()

    def stop_decoder(self, decoder: object, size: int) -> None:
        """End a decoder, which may wait or run, and take back all of its ``size`` bytes."""
        with self._changed:
            if self._queue.pop(decoder, None) is None:
                self._decoders_running -= 1
            self._use("decoders", -size)

    def reserve(self, size: int, timeout_s: float, waiter: object = None) -> Reservation | None:
        """Reserve ``size`` bytes for a reply, as soon as they are free or no reply is in memory.

        Returns None if that takes longer than ``timeout_s`` seconds. A ``waiter`` then keeps its
        place in the queue until it calls ``leave_queue``.
        """
        place = object() if waiter is None else waiter
        with self._changed:
            if self._wait(place, _Wanted(size), timeout_s):
                return self._reserve_reply(size)
            if waiter is None:
                self.leave_queue(place)
            return None

    def leave_queue(self, waiter: object) -> None:
        """Stop waiting for memory, so that the next one in the queue can have it."""
        with self._changed:
            if self._queue.pop(waiter, None):
                self._changed.notify_all()

    def _wait(self, place: object, wanted: _Wanted, timeout_s: float) -> bool:
        """Wait for a turn, ``timeout_s`` seconds at most. Returns whether it came.

        If not, the place in the queue stays.
        """
        self._queue[place] = wanted
        goes_on = self._changed.wait_for(lambda: self._may_go_on(place), timeout_s)
        if goes_on:
            self.leave_queue(place)
        return goes_on

    def _may_go_on(self, place: object) -> bool:
        """The rule of admission."""
        wanted = self._queue[place]
        if place is not self._first(decodes=wanted.decodes):
            return False
        if wanted.decodes:
            fits = not wanted.size or self.has_room(wanted.size) or not self._decoders_running
            return fits and self._decoders_running < self._decoders_max
        kept = max(0, self.limit // _DECODER_PART - self._bytes["decoders"])
        fits = self.has_room(kept + wanted.size) and not self._decoder_waits
        return fits or self._bytes["replies"] <= self._idle_reply_bytes

    @property
    def _decoders_max(self) -> int:
        """How many decoders may run at once.

        More than processors would not be faster. More than the limit has parts for would wait.
        """
        by_memory = max(_DECODERS_MIN, self.limit // (_PARTS_PER_READER * _BATCH_BYTES))
        return min(self._processors, by_memory)

    def _first(self, *, decodes: bool) -> object:
        """Returns the first in the queue. Decoders that have memory come before the others."""
        of_kind = (place for place, one in self._queue.items() if one.decodes is decodes)
        places = [place for place in of_kind if not self._must_wait(self._queue[place])]
        with_memory = (one for one in places if self._queue[one].total > self._queue[one].size)
        return next(with_memory, next(iter(places), None))

    @property
    def _decoder_waits(self) -> bool:
        """Whether a decoder waits that may have the next free memory."""
        decoders = (one for one in self._queue.values() if one.decodes and one.size)
        return any(not self._must_wait(one) for one in decoders)

    def _must_wait(self, wanted: _Wanted) -> bool:
        """Whether a decoder needs so much that it waits until no other reader has as much."""
        large = max(self.limit // _PARTS_PER_READER, 2 * _BATCH_BYTES)
        if wanted.total <= 2 * large or self.has_room(wanted.size):
            return False
        return any(size > large for size in self._segments)

    def charge(self, size: int) -> Reservation:
        """Reserve ``size`` bytes for a segment at once: a reader's first segment must not wait."""
        with self._changed:
            self._segments.append(size)
            self._use("segments", size)
        return Reservation(self._return_segment, size)

    def cache(self, key: _Key, size: int, value: object) -> None:
        """Cache a value of ``size`` bytes until ``take_cached``, or until others need the room."""
        with self._changed:
            self._drop_cached(key)
            self._cache[key] = size, value
            self._use("cache", size)

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
            size, _ = self._cache.pop(key)
            self._bytes["cache"] -= size
            self.used -= size

    def _use(self, use: _Use, change: int) -> None:
        """Count so many bytes more, or fewer. Cached values make room."""
        self._bytes[use] += change
        self.used += change
        while self._cache and self.used > self.limit:
            self._drop_cached(next(iter(self._cache)))
        self.peak = max(self.peak, self.used)
        if change <= 0:
            self._changed.notify_all()

    def _reserve_reply(self, size: int) -> Reservation:
        self._use("replies", size)
        return Reservation(self._return_reply, size)

    def _return_reply(self, size: int) -> None:
        with self._changed:
            self._use("replies", -size)

    def _return_segment(self, size: int) -> None:
        with self._changed:
            self._segments.remove(size)
            self._use("segments", -size)


def _processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class Reservation:
    """Bytes of a budget, which are returned once."""

    def __init__(self, return_bytes: Callable[[int], None], size: int) -> None:
        self._return_bytes = return_bytes
        self._size = size
        self._holders: set[int] = set()
        self._lock = threading.Lock()

    def release(self) -> None:
        """Return the bytes. Further calls do nothing."""
        with self._lock:
            size, self._size = self._size, 0
        if size:
            self._return_bytes(size)

    def share(self, size: int, count: int) -> list[Callable[[], None]]:
        """Change the size to ``size`` bytes, and return a release for each of ``count`` holders.

        The bytes return with the last holder's release; without a holder, at once. Further calls of
        one release do nothing.
        """
        self._return_bytes(self._size - size)
        self._size, self._holders = size, {*range(count)}
        if not count:
            self.release()
        return [partial(self._release_holder, number) for number in range(count)]

    def _release_holder(self, number: int) -> None:
        with self._lock:
            self._holders.discard(number)
            is_last = not self._holders
        if is_last:
            self.release()
