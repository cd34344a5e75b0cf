"""The channel between a worker and its agent: a length, a pickled message, file descriptors.

Pickle is safe here. Both ends are this package and run as the same user: the agent checks the
peer's uid before it reads a byte. Even so, the size of a message has a limit.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from kfetch.errors import AgentError, KfetchError
from kfetch.fetch.stats import FetchStats, SessionStatus
from kfetch.model import OffsetRange
from kfetch.options import SourceOptions

_LENGTH = struct.Struct(">I")
MESSAGE_BYTES_MAX = 64 << 20
"""A split of 100,000 ranges is about 20 MB, and two files of Protobuf types are 16 MiB."""
_DESCRIPTORS_MAX = 4
_CREDENTIALS = struct.Struct("3i")
NO_ROOM_ACTION = "raise the executor's limits of open files and memory, or set kfetch.agent=inline"
"""What the user can do for a worker that lacks descriptors or memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """The first message of both sides."""

    version: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Worker to agent: read these ranges."""

    query: str
    options: SourceOptions
    ranges: tuple[OffsetRange, ...]
    stream: str = ""
    """Spark's id of the streaming query, for people; empty outside a streaming query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """Worker or tool to agent: send your Status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """One open query of an agent."""

    name: str
    """kfetch's own name of the query."""
    stream: str
    """Spark's id of the query, as in its progress; empty outside a streaming query."""
    topics: tuple[str, ...]
    """Topics that tasks have read."""
    idle_s: float
    """Seconds since the last task ended; 0 while a task reads."""
    sessions: tuple[SessionStatus, ...]
    totals: FetchStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Agent to worker or tool: memory in bytes, workers and queries. Answers StatusRequest."""

    pid: int
    memory_used: int
    memory_peak: int
    memory_limit: int
    workers: int
    queries: tuple[QueryStatus, ...]
    log: str = ""
    """Path of the agent's log on this machine. The tool that asks fills it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFilled:
    """Agent to worker: a segment holds an Arrow stream of one record batch."""

    segment: int
    """Number of the segment. Its descriptor comes with the first message that names it."""
    size: int
    """Bytes of the stream in the segment."""
    positions: tuple[tuple[int, int], ...]
    """(index in ReadRequest.ranges, next offset) of each range that this batch moved."""
    retired: tuple[int, ...] = ()
    """Numbers of segments that the agent has closed. The worker unmaps them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAlive:
    """Agent to worker: the agent is alive, and no batch is ready yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReleased:
    """Worker to agent: the worker has read the batch, so the agent may reuse the segment."""

    segment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDone:
    """Agent to worker: every range is read to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFailed:
    """Agent to worker: the read failed with this error. The worker raises it."""

    error: KfetchError


class ChannelTimeout(AgentError):
    """The other side of the agent's socket did not answer in time."""


class ChannelClosed(AgentError):
    """The other side of the agent's socket closed it, or died."""


class Channel:
    """One connection between a worker and its agent. No wait is longer than ``timeout_s``."""

    def __init__(self, stream: socket.socket, timeout_s: float) -> None:
        self._stream = stream
        self._stream.settimeout(timeout_s)

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a message and open file descriptors.

        Raises ChannelClosed, ChannelTimeout, and AgentError for a message that is too large.
        """
        body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        _check_size(len(body))
        frame = memoryview(_LENGTH.pack(len(body)) + body)
        try:
            sent = socket.send_fds(self._stream, [frame], list(descriptors)) if descriptors else 0
            self._stream.sendall(frame[sent:])
        except TimeoutError:
            raise ChannelTimeout("the other side of the agent's socket reads no messages") from None
        except OSError as cause:
            raise ChannelClosed(f"the agent's socket is closed: {cause}") from None

    def receive(self) -> tuple[object, list[int]]:
        """Wait for a message. Returns it with the descriptors that came with it.

        Raises ChannelClosed, ChannelTimeout, and AgentError for a message that is too large or
        whose descriptors find no room.
        """
        prefix, descriptors = self._receive_exactly(_LENGTH.size)
        size = _LENGTH.unpack(prefix)[0]
        _check_size(size)
        body, _ = self._receive_exactly(size)
        return _unpickled(body), descriptors

    def set_timeout(self, timeout_s: float | None) -> None:
        """Limit every later wait to ``timeout_s`` seconds; None removes the limit."""
        self._stream.settimeout(timeout_s)

    def fileno(self) -> int:
        """Returns the socket's descriptor, for poll(2)."""
        return self._stream.fileno()

    def close(self) -> None:
        """Close the socket. The other side's ``receive`` then raises ChannelClosed."""
        self._stream.close()

    def _receive_exactly(self, size: int) -> tuple[bytearray, list[int]]:
        data, descriptors = bytearray(), []
        try:
            while len(data) < size:
                part, received, flags, _ = socket.recv_fds(
                    self._stream, size - len(data), _DESCRIPTORS_MAX
                )
                descriptors += received
                if flags & socket.MSG_CTRUNC:  # the kernel has dropped some (unix(7))
                    raise AgentError("the worker has no free descriptor", action=NO_ROOM_ACTION)
                if not part:
                    raise ChannelClosed("the other side has closed the agent's socket")
                data += part
        except TimeoutError:
            raise ChannelTimeout("no answer on the agent's socket in time") from None
        except OSError as cause:
            raise ChannelClosed(f"the agent's socket is closed: {cause}") from None
        finally:
            if len(data) < size:
                for descriptor in descriptors:
                    os.close(descriptor)
        return data, descriptors


def _check_size(size: int) -> None:
    if size > MESSAGE_BYTES_MAX:
        raise AgentError(f"a message of {size} bytes is larger than {MESSAGE_BYTES_MAX}")


def _unpickled(body: bytearray) -> object:
    """Returns the message. Raises AgentError if the other side is of another release."""
    try:
        return pickle.loads(body)  # noqa: S301 - the peer's uid was checked
    except (ImportError, AttributeError, TypeError, pickle.UnpicklingError) as cause:
        raise AgentError(
            f"the other side of the agent's socket runs another release of kfetch ({cause})",
            action="restart the executor",
        ) from None


def peer_uid(stream: socket.socket) -> int:
    """Returns the user id at the other end of a Unix socket."""
    return _peer(stream)[1]


def peer_pid(stream: socket.socket) -> int:
    """Returns the pid at the other end of a Unix socket: of the process that listened, or
    connected. Raises OSError without a connection."""
    return _peer(stream)[0]


def _peer(stream: socket.socket) -> tuple[int, int, int]:
    """Returns pid, uid and gid (SO_PEERCRED, unix(7))."""
    credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(credentials)
    return pid, uid, gid
