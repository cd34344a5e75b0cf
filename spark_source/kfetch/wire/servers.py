"""The servers of a cluster: which one gets a question, over which connection, for how long.

One Servers belongs to one thread. It keeps a connection per broker, opened at first use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from kfetch import codes
from kfetch.errors import BrokerError, ConnectionLost, KfetchError, TlsFailed
from kfetch.model import Broker
from kfetch.options import NetworkOptions
from kfetch.wire.addresses import Address, avoid, has_fresh_address, is_avoided, share_s
from kfetch.wire.connection import Connection
from kfetch.wire.retry import LASTING

T = TypeVar("T")
E = TypeVar("E", bound=KfetchError)

_SHARE_MIN_S = 5.0
"""The least time for one of many servers, but at most half of the time left. The metadata of a
large cluster takes seconds."""
_CAUSES_MAX = 20
"""The most failures of one question. After them, it does not try a name's other addresses."""


class Servers:
    """The bootstrap servers and the known brokers of one cluster, and the connections to them."""

    def __init__(
        self, bootstrap: tuple[Address, ...], options: NetworkOptions, *, patient: bool
    ) -> None:
        """``patient``: whether to retry even if all bootstrap servers are wrong listeners."""
        self._bootstrap = bootstrap
        self._options = options
        self._patient = patient
        self._answered = False
        self._brokers: Mapping[int, Broker] = {}
        self._connections: dict[Address, Connection] = {}
        self._turn = 0
        self.on_answer: Callable[[ConnectionLost | None], None] = lambda cause: None
        """Gets None when a broker has answered, and the cause when no broker can be reached."""

    def ask(self, question: Callable[[Connection, float], T], deadline: float) -> T:
        """Returns the answer of the first reachable broker: connected, known, then bootstrap.

        Brokers take turns, because one with old metadata must not answer every time. The
        servers share the time: one that accepts connections and never answers costs its share
        once, and is asked last for half a minute.
        """
        try:
            answer = self._first_answer(question, deadline)
        except ConnectionLost as cause:
            self.on_answer(cause)
            raise
        self._patient = self._answered = True
        self.on_answer(None)
        return answer

    def next_turn(self) -> None:
        """Let another broker be the first from now on."""
        self._turn += 1

    def undo_turn(self) -> None:
        """Undo ``next_turn``: the broker that was the first before stays the first."""
        self._turn -= 1

    def know(self, brokers: Mapping[int, Broker]) -> None:
        """Note the brokers of fresh metadata, and close connections to former addresses."""
        self._brokers = brokers
        current = {(broker.host, broker.port) for broker in brokers.values()}
        for address in self._connections.keys() - current - {*self._bootstrap}:
            self._connections.pop(address).close()

    def know_first(self, brokers: Mapping[int, Broker]) -> None:
        """Note the brokers of another cluster's metadata, if none are known yet."""
        self._brokers = self._brokers or brokers

    def forget(self) -> None:
        """Start again at the bootstrap servers: forget the known brokers (KIP-1102)."""
        self.close()
        self._brokers = {}

    def connect(self, address: Address, deadline: float) -> Connection:
        """Returns a connection to an address: the last one if it is alive, else a new one."""
        connection = self._connections.get(address)
        if connection is None or not connection.alive:
            connection = Connection.open(*address, self._options, deadline)
            self._connections[address] = connection
        return connection

    def close(self) -> None:
        """Closes every connection."""
        while self._connections:
            self._connections.popitem()[1].close()

    def addresses(self) -> list[Address]:
        """Returns all addresses in the order in which to ask them."""
        connected = [key for key, connection in self._connections.items() if connection.alive]
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        turns = [*self._rotated(connected), *self._rotated(known)]
        return sorted(dict.fromkeys([*turns, *self._bootstrap]), key=is_avoided)

    def _rotated(self, addresses: list[Address]) -> list[Address]:
        first = self._turn % max(1, len(addresses))
        return addresses[first:] + addresses[:first]

    def _first_answer(self, question: Callable[[Connection, float], T], deadline: float) -> T:
        causes: list[ConnectionLost | BrokerError] = []
        addresses = self.addresses()
        while addresses:
            until, address = self._share_end(deadline, len(addresses)), addresses.pop(0)
            try:
                return question(self.connect(address, until), until)
            except ConnectionLost as cause:
                causes.append(cause)
                # One address of a name may be a wrong listener. It comes last now.
                more = time.monotonic() < deadline and len(causes) < _CAUSES_MAX
                if more and isinstance(cause, LASTING) and has_fresh_address(*address):
                    addresses.insert(0, address)
                else:
                    avoid(address)
            except BrokerError as cause:
                if cause.where.get("code") != codes.REBOOTSTRAP_REQUIRED:
                    raise
                causes.append(cause)
                self.forget()
                addresses = [key for key in addresses if key in self._bootstrap]
        raise self._no_answer(causes)

    def _share_end(self, deadline: float, servers: int) -> float:
        """Returns when to give up one server, if ``servers`` share the time up to the deadline."""
        now = time.monotonic()
        wait_s = share_s(deadline - now, servers, _SHARE_MIN_S)
        return min(deadline, now + min(wait_s, self._options.request_timeout_s))

    def _no_answer(
        self, causes: list[ConnectionLost | BrokerError]
    ) -> ConnectionLost | BrokerError:
        """Returns the error for a question that no server answers: the clearest of its causes."""
        if not causes:
            return ConnectionLost("no broker is known")
        lasting = [cause for cause in causes if isinstance(cause, LASTING)]
        if not lasting:
            return causes[0]
        hopeless = not self._answered and all(isinstance(cause, TlsFailed) for cause in lasting)
        if len(lasting) < len(causes) or (self._patient and not hopeless):
            return lasting[0]
        return not_retriable(lasting[0])


def not_retriable(cause: E) -> E:
    """Returns the same error, which is not to be retried."""
    return type(cause)(cause.what, action=cause.action, **{**cause.where, "retriable": False})
