"""Unix stream sockets (unix(7)): bound to an inode, with a backlog, credentials and descriptors.

A path that was removed and bound again is another socket. A process that closes a connection with
unread bytes resets it. A receiver gets no bytes behind those that carry descriptors.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import NamedTuple

from simulation.kernel import Kernel
from simulation.machine.files import (
    POLLERR,
    POLLHUP,
    POLLIN,
    POLLOUT,
    POLLRDHUP,
    Description,
    Inode,
    fail,
)

BUFFER_BYTES = 212_992
"""What a receiver's queue takes before a sender waits (net.core.wmem_default)."""


class Credentials(NamedTuple):
    """SO_PEERCRED."""

    pid: int
    uid: int
    gid: int


class _Chunk:
    """Bytes of one send, and the descriptors that travel with them."""

    __slots__ = ("carried", "data")

    def __init__(self, data: memoryview, carried: list[Description]) -> None:
        self.data = data
        self.carried = carried


class UnixSocket(Description):
    """One end of a connection, or a listener, or neither yet."""

    __slots__ = (
        "_kernel",
        "backlog",
        "bound",
        "credentials",
        "error",
        "hung_up",
        "listening",
        "peer",
        "pending",
        "queue",
        "queued",
    )

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel
        self.bound: Inode | None = None
        self.listening = False
        self.backlog = 0
        self.pending: deque[UnixSocket] = deque()
        """Of a listener: the ends that nobody has accepted."""
        self.peer: UnixSocket | None = None
        self.credentials: Credentials | None = None
        """Of the other end; of a listener, its own."""
        self.queue: deque[_Chunk] = deque()
        self.queued = 0
        self.error = 0
        self.hung_up = False
        """Whether the other end has closed."""

    def changed(self) -> None:
        """Wake everybody who waits here."""
        self._kernel.wake(self.waiters)

    def events(self) -> int:
        """See Description."""
        if self.listening:
            return POLLIN if self.pending else 0
        if self.peer is None and not self.hung_up:
            return POLLOUT | POLLHUP
        events = POLLERR if self.error else 0
        if self.hung_up:
            return events | POLLIN | POLLOUT | POLLHUP | POLLRDHUP
        if self.queue:
            events |= POLLIN
        if self.peer is not None and self.peer.queued < BUFFER_BYTES:
            events |= POLLOUT
        return events

    # -- listeners --------------------------------------------------------------------------

    def listen(self, backlog: int, credentials: Credentials) -> None:
        """Accept connections from now on."""
        if self.bound is None:
            fail(errno.EINVAL)
        self.listening, self.backlog, self.credentials = True, backlog, credentials
        self.bound.listener = self

    def connect(self, inode: Inode, credentials: Credentials) -> None:
        """Connect to what listens at an inode. It needs not accept for that."""
        if self.peer is not None or self.hung_up:
            fail(errno.EISCONN)
        listener = inode.listener
        if listener is None:
            fail(errno.ECONNREFUSED)
        if len(listener.pending) > listener.backlog:
            fail(errno.EAGAIN)
        end = UnixSocket(self._kernel)
        end.peer, self.peer = self, end
        end.credentials, self.credentials = credentials, listener.credentials
        listener.pending.append(end)
        listener.changed()

    # -- connections ------------------------------------------------------------------------

    def send(self, data: memoryview, carried: list[Description]) -> int:
        """Send what the other end has room for. Returns its size; EAGAIN: no room."""
        if self.hung_up:
            fail(errno.EPIPE)
        if self.peer is None:
            fail(errno.ENOTCONN)
        room = BUFFER_BYTES - self.peer.queued
        if room <= 0:
            fail(errno.EAGAIN)
        part = data[:room]
        for description in carried:
            description.holders += 1
        self.peer.queue.append(_Chunk(memoryview(bytes(part)), carried))
        self.peer.queued += len(part)
        self.peer.changed()
        return len(part)

    def receive(self, size: int) -> tuple[bytes, list[Description]]:
        """Receive up to ``size`` bytes. Nothing: the other end has closed; EAGAIN: none came.

        The caller holds the descriptions that come with the bytes.
        """
        if not self.queue:
            if self.error:
                self._raise_error()
            if self.hung_up:
                return b"", []
            fail(errno.EINVAL if self.peer is None else errno.EAGAIN)
        data = b""
        carried: list[Description] = []
        while self.queue and len(data) < size and not carried:
            chunk = self.queue[0]
            carried, chunk.carried = chunk.carried, []
            part = chunk.data[: size - len(data)]
            data += part
            chunk.data = chunk.data[len(part) :]
            if not len(chunk.data):
                self.queue.popleft()
        self.queued -= len(data)
        if self.peer is not None:
            self.peer.changed()
        return data, carried

    def _raise_error(self) -> None:
        number, self.error = self.error, 0
        fail(number)

    def last_close(self) -> None:
        """See Description. Unread bytes reset the connection."""
        if self.listening and self.bound is not None:
            self.bound.listener = None
            while self.pending:
                self.pending.popleft()._end(reset=True)
        self._end(reset=bool(self.queue))

    def _end(self, *, reset: bool) -> None:
        peer, self.peer = self.peer, None
        self.hung_up = True
        while self.queue:
            for description in self.queue.popleft().carried:
                description.release()
        if peer is not None:
            peer.peer, peer.hung_up = None, True
            peer.error = errno.ECONNRESET if reset else peer.error
            peer.changed()
