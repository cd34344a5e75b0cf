"""The frames of a connection: their memory, and how they are sent and received by a deadline.

A frame is its length in four bytes, and as many bytes. ``connection`` knows what they mean.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

from kfetch.wire.transport import peer_address

Allocate = Callable[[int], memoryview]
"""Returns the memory for a reply of so many bytes."""

_LENGTH = struct.Struct(">i")
_SIZE_MIN = 4
"""A correlation id is the least that a frame has."""
_CLOSED = "the broker closed it"
_TIMEOUT_VALID_S = 0.01
"""How long a socket's timeout stays as it is. TLS receives 16 KiB at a time, and setting it costs a
system call each."""
_KEPT_BYTES = 1 << 16


class ReplyBuffer:
    """Memory that all replies share: it grows to the largest reply, and nothing zeroes it again.

    The next reply overwrites the view of the last one. A caller that keeps bytes copies them.
    """

    def __init__(self) -> None:
        self._memory = bytearray(_KEPT_BYTES)

    def __call__(self, size: int) -> memoryview:
        if size > len(self._memory):
            self._memory = bytearray(size + size // 4)
        return memoryview(self._memory)[:size]

    def trim(self) -> None:
        """Give the memory of large replies back to the system once the last view of them ends."""
        if len(self._memory) > _KEPT_BYTES:
            self._memory = bytearray(_KEPT_BYTES)


class NoFrame(Exception):
    """No whole frame has come by the deadline."""


class BrokenFrame(Exception):
    """What has come is no frame. The text says why."""


class Frames:
    """The frames of one socket. Each method raises OSError as the socket does."""

    def __init__(self, stream: socket.socket, size_max: int, *, secured: bool) -> None:
        """``secured``: whether the socket speaks TLS, for errors."""
        self.stream = stream
        self.peer_address = peer_address(stream)
        """The socket address of the other side, for ``avoid``. None if it is gone already."""
        self._secured = secured
        self.size_max = size_max
        """The largest frame to accept, in bytes."""
        self._prefix = memoryview(bytearray(_LENGTH.size))
        self._prefix_bytes = 0
        """How much of the next frame's length has arrived."""

    def send(self, frame: bytes, deadline: float) -> None:
        """Sends a frame by the deadline. With TLS, ``sendall`` would give each 16 KiB that time."""
        rest = memoryview(frame)
        while rest:
            if (remaining_s := deadline - time.monotonic()) <= 0:
                raise TimeoutError("timed out")
            self.stream.settimeout(remaining_s)
            rest = rest[self.stream.send(rest) :]

    def starts_before(self, until: float) -> bool:
        """Returns whether a frame's first byte comes before ``until``. It counts as received.

        TLS can't peek, and a readable socket may hold a session ticket without any data. Raises
        BrokenFrame.
        """
        try:
            self.stream.settimeout(max(0.001, until - time.monotonic()))
            self._prefix_bytes = self.stream.recv_into(self._prefix[:1])
        except TimeoutError:
            return False
        if not self._prefix_bytes:
            raise BrokenFrame(_CLOSED)
        return True

    def receive(self, deadline: float, allocate: Allocate | None) -> memoryview:
        """Returns the next frame without its length. Raises NoFrame, BrokenFrame."""
        self._fill(self._prefix[self._prefix_bytes :], deadline)
        self._prefix_bytes = 0
        size: int = _LENGTH.unpack(self._prefix)[0]
        if not _SIZE_MIN <= size <= self.size_max:
            without = "" if self._secured else " without TLS"
            raise BrokenFrame(
                f"a reply claims {size} bytes, where {_SIZE_MIN} to {self.size_max} are possible: "
                f"is a Kafka broker listening there{without}?"
            )
        frame = allocate(size) if allocate else memoryview(bytearray(size))
        self._fill(frame, deadline)
        return frame

    def _fill(self, target: memoryview, deadline: float) -> None:
        filled, timeout_expires_at = 0, 0.0
        while filled < len(target):
            now = time.monotonic()
            if now >= deadline:
                raise NoFrame
            try:
                if now >= timeout_expires_at:
                    self.stream.settimeout(deadline - now)
                    timeout_expires_at = now + _TIMEOUT_VALID_S
                received = self.stream.recv_into(target[filled:])
            except TimeoutError:
                raise NoFrame from None
            if received == 0:
                raise BrokenFrame(_CLOSED)
            filled += received
