"""The links to the brokers: latency, and everything that may go wrong between two hosts.

A connection keeps the order of its requests and of its replies. A broker handles one request of a
connection at a time. All delays come from the kernel's seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kfetch.errors import ConnectionLost
from kfetch.wire.connection import Connection
from simulation.cluster.cluster import Cluster
from simulation.cluster.fetching import Fetch
from simulation.kernel import Kernel, Process
from simulation.network.connection import CLOSED, RESET, SimulatedConnection

_LEAST_S = 0.0002
_REFUSED = "[Errno 111] Connection refused"
_TIMED_OUT = "timed out"
_NO_REPLY = "no reply within the deadline"


@dataclass(slots=True)
class Link:
    """What is wrong with the way to a broker, or with the broker's process. At first nothing."""

    slow_s: float = 0.0
    """More time for each way."""
    hangs: bool = False
    """The process accepts connections and answers nothing, as after SIGSTOP."""
    parted: bool = False
    """No packet comes through. Packets that were sent arrive when it ends."""
    refuses: bool = False
    """Nothing listens at the port, though the process runs."""
    replies_to_cut: int = 0
    """The next replies are lost, and their connections with them."""
    replies_to_swallow: int = 0
    """The next replies never come. The connections stay."""
    replies_to_delay: int = 0
    delay_s: float = 0.0
    """The next replies come so much later."""


class Network:
    """Connections between simulated processes and the brokers of a cluster."""

    def __init__(self, kernel: Kernel, cluster: Cluster) -> None:
        self.kernel = kernel
        self.cluster = cluster
        self.latency_s = 0.002
        """The longest way of a packet."""
        self.links = {number: Link() for number in cluster.brokers}
        self.connections: dict[SimulatedConnection, None] = {}

        self.connection_class: type[SimulatedConnection] = type(
            "Connection", (SimulatedConnection,), {"network": self}
        )
        self._processes: dict[Process, None] = {}
        self._numbers = {(b.host, b.port): n for n, b in cluster.brokers.items()}
        self._held: dict[int, list[Callable[[], object]]] = {n: [] for n in cluster.brokers}

    @contextmanager
    def installed(self, modules: Iterable[ModuleType]) -> Iterator[None]:
        """A context in which the modules' ``Connection`` is the simulated one."""
        changed = [names for names in map(vars, modules) if names.get("Connection") is Connection]
        changed = [names for names in changed if names["__name__"] != Connection.__module__]
        for names in changed:
            names["Connection"] = self.connection_class
        try:
            yield
        finally:
            for names in changed:
                names["Connection"] = Connection

    @property
    def now_ms(self) -> float:
        """The time for the cluster."""
        return self.kernel.now * 1000

    # -- faults ------------------------------------------------------------------------------

    def cut(self, number: int) -> None:
        """End all connections of a broker. What is on its way is lost."""
        for connection in list(self.connections):
            if connection.number == number:
                self._break(connection, RESET)

    def part(self, number: int, parted: bool) -> None:
        """Begin or end a partition of the network, between a broker and all clients."""
        self.links[number].parted = parted
        if not parted:
            self._let_go(number)

    def hang(self, number: int, hangs: bool) -> None:
        """Stop or continue a broker's process. Then it handles the requests that came meanwhile."""
        self.links[number].hangs = hangs
        if not hangs:
            self._let_go(number)
            for connection in list(self.connections):
                if connection.number == number:
                    self._pump(connection)

    def stopped(self, number: int) -> None:
        """A broker's process has ended: its system closes the connections."""
        for connection in list(self.connections):
            if connection.number == number:
                self._break(connection, CLOSED)

    def _let_go(self, number: int) -> None:
        held, self._held[number] = self._held[number], []
        for call in held:
            call()

    def _break(self, connection: SimulatedConnection, cause: str) -> None:
        del self.connections[connection]
        connection.arrived.clear()
        self.kernel.after(self._latency(connection.number), self._see_end, connection, cause)

    def _see_end(self, connection: SimulatedConnection, cause: str) -> None:
        connection.broken = cause
        self.kernel.wake(connection.waiters)

    # -- clients -----------------------------------------------------------------------------

    def process(self) -> Process:
        """Returns the process that runs."""
        assert self.kernel.current is not None
        return self.kernel.current.process

    def number_at(self, host: str, port: int) -> int | None:
        """Returns the broker of an address."""
        return self._numbers.get((host, port))

    def reach(
        self, number: int, until: float, unreachable: Callable[[str], ConnectionLost]
    ) -> None:
        """Waits until a TCP connection stands. Raises what ``unreachable`` makes."""
        kernel, link = self.kernel, self.links[number]
        if link.parted:
            kernel.wait(None, until)
            raise unreachable(_TIMED_OUT)
        at = kernel.now + 2 * self._latency(number)
        kernel.wait(None, min(at, until))
        if at > until or link.parted:
            raise unreachable(_TIMED_OUT)
        if link.refuses or not self.cluster.brokers[number].alive:
            raise unreachable(_REFUSED)

    def answer_versions(self, connection: SimulatedConnection, deadline: float) -> None:
        """Waits for the answer to ApiVersions. Raises ConnectionLost."""
        kernel, number = self.kernel, connection.number
        link = self.links[number]
        until = kernel.now + 2 * self._latency(number)
        while True:
            late = until > deadline
            kernel.wait(None, min(until, deadline))
            if connection.broken or connection not in self.connections:
                raise connection.lose(connection.broken or CLOSED)
            if late:
                raise connection.lose(_NO_REPLY)
            if not link.hangs and not link.parted:
                return
            until = kernel.now + 0.1

    def opened(self, connection: SimulatedConnection) -> None:
        """Note a connection. It ends with its process."""
        self.connections[connection] = None
        process = connection.process
        if process not in self._processes:
            self._processes[process] = None
            process.on_end(lambda: self._ended(process))

    def closed(self, connection: SimulatedConnection) -> None:
        """The client closes a connection. The broker reads what was sent before."""
        self.connections.pop(connection, None)

    def _ended(self, process: Process) -> None:
        del self._processes[process]
        for connection in [c for c in self.connections if c.process is process]:
            self.closed(connection)

    def open_of(self, process: Process) -> int:
        """Returns how many connections a process has."""
        return sum(connection.process is process for connection in self.connections)

    # -- requests ----------------------------------------------------------------------------

    def send(self, connection: SimulatedConnection, request: Any) -> None:
        """Bring a request to the broker, after those before it."""
        at = max(self.kernel.now + self._latency(connection.number), connection.last_arrival)
        connection.last_arrival = at
        self.kernel.at(at, self._arrive, connection, request)
        self.kernel.pause_point()

    def _arrive(self, connection: SimulatedConnection, request: Any) -> None:
        link = self.links[connection.number]
        if link.parted:
            self._held[connection.number].append(lambda: self._arrive(connection, request))
            return
        broker = self.cluster.brokers[connection.number]
        if not connection.broken and broker.alive and broker.starts == connection.starts:
            connection.arrived.append(request)
            self._pump(connection)

    def _pump(self, connection: SimulatedConnection) -> None:
        link = self.links[connection.number]
        while connection.arrived and not connection.busy and not link.hangs:
            broker = self.cluster.brokers[connection.number]
            if not broker.alive or broker.starts != connection.starts:
                return
            request = connection.arrived.popleft()
            reply = broker.handle(request, self.now_ms)
            if isinstance(reply, Fetch):
                connection.busy = True
                reply.on_reply = lambda frame: self._end_wait(connection, frame)
                self.kernel.at(reply.until_ms / 1000, self._expire, reply, connection)
            else:
                self._reply(connection, reply)

    def _expire(self, fetch: Fetch, connection: SimulatedConnection) -> None:
        if not fetch.done:
            if self.links[connection.number].hangs:
                self._held[connection.number].append(lambda: self._expire(fetch, connection))
                return
            fetch.broker.end_wait(fetch, self.now_ms)

    def _end_wait(self, connection: SimulatedConnection, frame: bytes) -> None:
        connection.busy = False
        self._reply(connection, frame)
        self._pump(connection)

    def _reply(self, connection: SimulatedConnection, reply: Any) -> None:
        if connection not in self.connections:
            return
        link = self.links[connection.number]
        wait_s = self._latency(connection.number)
        if link.replies_to_cut:
            link.replies_to_cut -= 1
            self._break(connection, RESET)
            return
        if link.replies_to_swallow:
            link.replies_to_swallow -= 1
            connection.busy = True  # and no reply after it may come in its place
            return
        if link.replies_to_delay:
            link.replies_to_delay -= 1
            wait_s += link.delay_s
        at = max(self.kernel.now + wait_s, connection.last_reply)
        connection.last_reply = at
        self.kernel.at(at, self._deliver, connection, reply)

    def _deliver(self, connection: SimulatedConnection, reply: Any) -> None:
        if self.links[connection.number].parted:
            self._held[connection.number].append(lambda: self._deliver(connection, reply))
        elif connection in self.connections:
            connection.replies.append(reply)
            self.kernel.wake(connection.waiters)

    def _latency(self, number: int) -> float:
        slow_s = self.links[number].slow_s
        return _LEAST_S + self.kernel.random.random() * self.latency_s + slow_s
