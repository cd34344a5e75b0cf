"""The shared memory of one read: hands batches to the worker and reuses its segments."""

from __future__ import annotations

import contextlib
import select
import time

from kfetch.agent.budget import Budget, Reservation
from kfetch.agent.channel import Channel, KeepAlive, SegmentFilled, SegmentReleased
from kfetch.agent.segments import Segment, stream_size
from kfetch.errors import AgentError
from kfetch.fetch.split_reader import Delivery

# Two: Spark reads one while the agent decodes into the other. More would only hold memory.
_SEGMENTS_MAX = 2
# A free segment is replaced if it is this many times larger than the next batch, and not small.
_OVERSIZE_FACTOR, _OVERSIZE_BYTES_MIN = 4, 8 << 20
# How often the agent tells a waiting worker that it is alive. The client adds three times this to
# the poll timeout before it treats the agent as hung. A read may wait for memory much longer.
_KEEP_ALIVE_S = 10.0


class SegmentPool:
    """The segments of one read. The worker releases each by message."""

    def __init__(self, channel: Channel, budget: Budget) -> None:
        self._channel = channel
        self._budget = budget
        self._free: list[Segment] = []
        self._lent: dict[int, Segment] = {}
        """By number: segments that the worker has not released."""
        self._reservations: dict[int, Reservation] = {}
        self._retired: list[int] = []
        """Numbers of closed segments that the worker still maps."""
        self._last_number = 0
        self._keep_alive_at = time.monotonic() + _KEEP_ALIVE_S

    def send(self, delivery: Delivery) -> None:
        """Write a batch into a free segment and tell the worker. May wait for a release."""
        size = stream_size(delivery.batch)
        # Until it is in a segment, the batch takes memory of its own.
        batch_memory = self._budget.charge(size)
        try:
            segment = self._acquire(size)
            self._lent[segment.number] = segment  # so that ``close`` finds it if a step fails
            segment.write(delivery.batch)
        finally:
            batch_memory.release()
        descriptors = [] if segment.sent else [segment.descriptor]
        retired, self._retired = tuple(self._retired), []
        message = SegmentFilled(
            segment=segment.number, size=size, positions=delivery.positions, retired=retired
        )
        self._channel.send(message, descriptors)
        segment.sent = True

    def poll_worker(self) -> bool:
        """Handle the worker's releases. Returns whether the worker has closed its channel.

        Also closes free segments if others wait for memory, and tells the worker that the agent is
        alive. A read calls this while it waits, so it never blocks. The socket's buffer holds
        hundreds of keep-alive messages.
        """
        if time.monotonic() >= self._keep_alive_at:
            self._keep_alive_at = time.monotonic() + _KEEP_ALIVE_S
            self._channel.send(KeepAlive())
        while (events := _poll(self._channel)) == select.POLLIN:
            self._await_release()
        while self._free and self._budget.has_waiters:
            self._retire(self._free.pop())
        return events != 0

    def close(self) -> None:
        """Close every segment and return its memory."""
        with contextlib.ExitStack() as stack:
            for segment in (*self._free, *self._lent.values()):
                stack.callback(self._close, segment)
            self._free.clear()
            self._lent.clear()

    def _acquire(self, size: int) -> Segment:
        # Each reader may always have one segment. Its worker releases that one, so the wait ends.
        while not self._free and len(self._lent) >= self._lent_max(size):
            self._await_release()
        if self._free:
            segment = self._free.pop()
            # After one huge batch, the next ones must not hold as much memory.
            if size <= segment.size <= max(_OVERSIZE_FACTOR * size, _OVERSIZE_BYTES_MIN):
                return segment
            self._retire(segment)
        self._last_number += 1
        # A quarter more: batches of one topic differ a little, and a new segment costs page faults.
        segment = Segment.create(self._last_number, size + size // 4)
        self._reservations[segment.number] = self._budget.charge(segment.size)
        return segment

    def _lent_max(self, size: int) -> int:
        return _SEGMENTS_MAX if self._budget.has_room(size) else 1

    def _await_release(self) -> None:
        message, _ = self._channel.receive()
        if not isinstance(message, SegmentReleased) or message.segment not in self._lent:
            raise AgentError(f"a worker sent {message!r} instead of a release")
        self._free.append(self._lent.pop(message.segment))

    def _retire(self, segment: Segment) -> None:
        """Close a free segment. The next batch tells the worker."""
        segment.erase()
        self._retired.append(segment.number)
        self._close(segment)

    def _close(self, segment: Segment) -> None:
        self._reservations.pop(segment.number).release()
        segment.close()


def _poll(channel: Channel) -> int:
    """Returns what poll(2) reports now: POLLIN for a message, more if the channel ended, or 0."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN | select.POLLRDHUP)
    return sum(events for _, events in poll.poll(0))
