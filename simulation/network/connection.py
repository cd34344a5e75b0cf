"""Stands in for ``kfetch.wire.connection.Connection``: the same methods, errors and order.

It inherits what needs no socket: versions, the first cause of its death, the texts. A request is
not encoded. A Fetch reply is the bytes of a frame, in memory of the caller; other replies are
objects.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kfetch.errors import ConnectionLost
from kfetch.options import NetworkOptions
from kfetch.wire.connection import Connection
from kfetch.wire.frames import Allocate
from simulation.kernel.scheduler import Waiters

if TYPE_CHECKING:
    from simulation.kernel import Process
    from simulation.network.network import Network

_NO_REPLY = "no reply within the deadline"
CLOSED = "the broker closed it"
RESET = "receiving failed: [Errno 104] Connection reset by peer"
_BROKEN_PIPE = "[Errno 32] Broken pipe"
_REQUEST_BYTES = 64
"""What a request counts, for the product's figures. Nothing is encoded."""


class SimulatedConnection(Connection):
    """A connection of a simulated process to a simulated broker."""

    network: Network

    def __init__(self, number: int, address: tuple[str, int], options: NetworkOptions) -> None:
        self.number = number
        """Of the broker."""
        self.peer = f"{address[0]}:{address[1]}"
        self._address = address
        self._options = options
        self._frames: Any = SimpleNamespace(stream=self, peer_address=address)
        self._in_flight: deque[Any] = deque()
        self._failure = None
        self._probe = None
        self._login = None
        self.process: Process = self.network.process()
        self.broken = ""
        """How the broker, or the network, has ended it. The client sees it after what came."""
        self.replies: deque[Any] = deque()
        self.waiters: Waiters = []
        self.arrived: deque[Any] = deque()
        """At the broker: requests that wait for the one before them."""
        self.busy = False
        self.last_arrival = 0.0
        self.last_reply = 0.0
        broker = self.network.cluster.brokers[number]
        self.starts = broker.starts
        self._versions = broker.versions

    @classmethod
    def open(
        cls, host: str, port: int, options: NetworkOptions, deadline: float
    ) -> SimulatedConnection:
        """Connects as the real one does. Raises ConnectionLost."""
        network = cls.network
        until = min(deadline, network.kernel.now + options.connect_timeout_s)
        number = network.number_at(host, port)
        if number is None:
            raise _unreachable(host, port, "[Errno -2] Name or service not known")
        network.reach(number, until, lambda cause: _unreachable(host, port, cause))
        connection = cls(number, (host, port), options)
        network.opened(connection)
        try:
            network.answer_versions(connection, deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def alive(self) -> bool:
        """Whether no call has failed: the end of an idle connection is still on its way."""
        return self._failure is None

    def send(self, request: Any, deadline: float = float("inf")) -> int:
        """Sends a request, and returns a size."""
        self._check_alive()
        if self.broken and self.network.kernel.random.random() < 0.5:
            # The socket learns of the end by a request, or by the wait for its reply.
            raise self._bury(self._lost(f"sending {request.name} failed: {_BROKEN_PIPE}"))
        self._in_flight.append(request)
        self.network.send(self, request)
        return _REQUEST_BYTES

    def receive(self, deadline: float, allocate: Allocate | None = None) -> tuple[Any, memoryview]:
        """Returns the oldest request's header, and its reply's frame."""
        header, reply = self._next(deadline)
        frame = allocate(len(reply)) if allocate else memoryview(bytearray(len(reply)))
        frame[:] = reply
        return header, frame

    def call(self, request: Any, deadline: float) -> Any:
        """Sends a request and returns its response."""
        self.send(request, deadline)
        return self._next(deadline)[1]

    def _next(self, deadline: float) -> tuple[Any, Any]:
        self._check_alive()
        if not self._in_flight:
            raise RuntimeError(f"no request to {self.peer} is waiting for a reply")
        kernel = self.network.kernel
        while not self.replies:
            if self.broken:
                raise self._bury(self._lost(self.broken))
            if not kernel.wait(self.waiters, deadline) and not self.replies:
                raise self._bury(self._lost(_NO_REPLY))
            self._check_alive()
        request = self._in_flight.popleft()
        reply = self.replies.popleft()
        return SimpleNamespace(request_api_version=request.API_VERSION), reply

    def lose(self, cause: str) -> ConnectionLost:
        """Closes the connection. Returns the error, which it raises from now on."""
        failure: ConnectionLost = self._bury(self._lost(cause))
        return failure

    def _bury(self, failure: Any) -> Any:
        if self._failure is None:
            self.network.closed(self)
            self._failure = failure
        return failure


def _unreachable(host: str, port: int, cause: str) -> ConnectionLost:
    what = (
        f"no connection to {host}:{port}: {cause} (is the broker up, and is this the "
        "address it advertises?)"
    )
    return ConnectionLost(what, host=host, port=port, cause=cause)
