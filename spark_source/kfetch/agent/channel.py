"""Messages between a worker and its agent: length, pickle, and file descriptors beside them.

Pickle is safe here because both ends are this package, run by the same user: the agent checks the
peer's uid before it reads a byte. A frame has a limit all the same.
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
_FRAME_BYTES_MAX = 64 << 20  # a split of 100,000 ranges is about 20 MB
_DESCRIPTORS_MAX = 4
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first message of both sides."""

    version: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Worker to agent: read these ranges."""

    query: str
    options: SourceOptions
    ranges: tuple[OffsetRange, ...]
    stream: str = ""
    """Id of Spark's streaming query, for people; empty outside of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskStatus:
    """Anyone to agent: what do you hold?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """One query of an agent."""

    name: str
    """Our own name of the query."""
    stream: str
    """Spark's id of it, as in its progress; empty outside of a streaming query."""
    topics: tuple[str, ...]
    """Those that tasks have read."""
    idle_s: float
    sessions: tuple[SessionStatus, ...]
    totals: FetchStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What an agent holds; the answer to AskStatus."""

    pid: int
    memory_used: int
    memory_peak: int
    memory_limit: int
    workers: int
    queries: tuple[QueryStatus, ...]
    log: str = ""
    """Where its log is, for whoever asks on the same machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Agent to worker: an Arrow stream of one record batch lies in shared memory."""

    segment: int
    """Number of the segment; its descriptor comes with the first message that names it."""
    size: int
    """Bytes of the stream in the segment."""
    positions: tuple[tuple[int, int], ...]
    """(index of the range in Read, next offset) of every range that this batch moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Agent to worker: nothing has arrived yet, and the agent is alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Worker to agent: the batch in this segment has been read, its memory may be used again."""

    segment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Agent to worker: every range has been read to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Agent to worker: the read failed; raise this."""

    error: KfetchError


class Hung(AgentError):
    """The other side has not answered in time."""


class Gone(AgentError):
    """The other side has closed the channel, or died."""


class Channel:
    """One connection between a worker and its agent. ``timeout_s`` bounds every wait."""

    def __init__(self, stream: socket.socket, timeout_s: float) -> None:
        self._stream = stream
        self._stream.settimeout(timeout_s)

    def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a message. Raises Gone, Hung."""
        body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        frame = memoryview(_LENGTH.pack(len(body)) + body)
        try:
            sent = socket.send_fds(self._stream, [frame], list(descriptors)) if descriptors else 0
            self._stream.sendall(frame[sent:])
        except TimeoutError:
            raise Hung("the other side of the agent's socket takes no messages") from None
        except OSError as cause:
            raise Gone(f"the agent's socket is gone: {cause}") from None

    def receive(self) -> tuple[object, list[int]]:
        """The next message and the descriptors that came with it. Raises Gone, Hung."""
        prefix, descriptors = self._exactly(_LENGTH.size)
        size = _LENGTH.unpack(prefix)[0]
        if size > _FRAME_BYTES_MAX:
            raise AgentError(f"a message of {size} bytes is larger than {_FRAME_BYTES_MAX}")
        body, _ = self._exactly(size)
        return _unpickled(body), descriptors

    def set_timeout(self, timeout_s: float | None) -> None:
        """Bound every wait from now on; None for no bound."""
        self._stream.settimeout(timeout_s)

    def fileno(self) -> int:
        """For waiting on the channel and on something else."""
        return self._stream.fileno()

    def close(self) -> None:
        """Close the socket; the other side sees the end of it."""
        self._stream.close()

    def _exactly(self, size: int) -> tuple[bytearray, list[int]]:
        data, descriptors = bytearray(), []
        try:
            while len(data) < size:
                part, received, _, _ = socket.recv_fds(
                    self._stream, size - len(data), _DESCRIPTORS_MAX
                )
                descriptors += received
                if not part:
                    raise Gone("the other side has closed the agent's socket")
                data += part
        except TimeoutError:
            raise Hung("no answer on the agent's socket in time") from None
        except OSError as cause:
            raise Gone(f"the agent's socket is gone: {cause}") from None
        finally:
            if len(data) < size:
                for descriptor in descriptors:
                    os.close(descriptor)
        return data, descriptors


def _unpickled(body: bytearray) -> object:
    """The message. Raises AgentError if the other side runs a release with other classes."""
    try:
        return pickle.loads(body)  # noqa: S301 - the peer's uid was checked
    except (ImportError, AttributeError, TypeError, pickle.UnpicklingError) as cause:
        raise AgentError(
            f"the other side of the agent's socket runs another release of kfetch ({cause}): "
            "restart the executor"
        ) from None


def peer_uid(stream: socket.socket) -> int:
    """The user at the other end of a Unix socket (SO_PEERCRED, unix(7))."""
    told = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(told)[1]
    return uid
