"""A TCP proxy in front of one broker. It counts requests, replies and bytes by Kafka API.

The broker must advertise the proxy's port, or clients would bypass the proxy. ``proxied`` starts
both. The sizes include Kafka's length prefix, but no TCP/IP headers.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kfetch_jobs.kafka import Cluster
from kfetch_jobs.kafka.ready import free_ports

APIS = {1: "Fetch", 2: "ListOffsets", 3: "Metadata", 18: "ApiVersions", 75: "DescribeTopics"}
_REQUEST_HEADER = struct.Struct(">ihh")  # length, API key, API version
_LENGTH = struct.Struct(">i")


@dataclass(slots=True)
class Tally:
    """The number and the bytes of one API's requests and replies."""

    requests: int = 0
    request_bytes: int = 0
    replies: int = 0
    reply_bytes: int = 0

    @property
    def mean_request(self) -> float:
        """The mean size of a request, in bytes."""
        return self.request_bytes / max(1, self.requests)

    @property
    def mean_reply(self) -> float:
        """The mean size of a reply, in bytes."""
        return self.reply_bytes / max(1, self.replies)


class CountingProxy:
    """Forwards connections from ``port`` to ``target``, another port of this machine."""

    def __init__(self, port: int, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._tallies: dict[str, Tally] = {}
        self._streams: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, daemon=True).start()

    def take_tallies(self) -> dict[str, Tally]:
        """Returns the tallies since the last call, by the API's name."""
        with self._lock:
            tallies, self._tallies = self._tallies, {}
        return {name: replace(tally) for name, tally in tallies.items()}

    def close(self) -> None:
        """Close the listener and every connection."""
        for stream in [self._listener, *self._streams]:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
            stream.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._streams += [client, broker]
                unanswered: deque[str] = deque()
                for forward in (self._forward_requests, self._forward_replies):
                    streams = (client, broker, unanswered)
                    threading.Thread(target=forward, args=streams, daemon=True).start()

    def _forward_requests(
        self, client: socket.socket, broker: socket.socket, unanswered: deque[str]
    ) -> None:
        for frame in _frames(client, broker):
            _, key, _ = _REQUEST_HEADER.unpack_from(frame)
            name = APIS.get(key, f"API {key}")
            unanswered.append(name)
            with self._lock:
                tally = self._tallies.setdefault(name, Tally())
                tally.requests += 1
                tally.request_bytes += len(frame)
            broker.sendall(frame)

    def _forward_replies(
        self, client: socket.socket, broker: socket.socket, unanswered: deque[str]
    ) -> None:
        for frame in _frames(broker, client):
            with self._lock:
                tally = self._tallies.setdefault(unanswered.popleft(), Tally())
                tally.replies += 1
                tally.reply_bytes += len(frame)
            client.sendall(frame)


def _frames(source: socket.socket, other: socket.socket) -> Iterator[bytes]:
    """Yields whole frames with their length prefix. Closes both sides when either side closes."""
    try:
        while head := _read_exactly(source, _LENGTH.size):
            yield head + _read_exactly(source, _LENGTH.unpack(head)[0])
    except OSError:
        return
    finally:
        for stream in (source, other):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)


def _read_exactly(stream: socket.socket, size: int) -> bytes:
    """Returns ``size`` bytes; none if the stream ends before."""
    data = bytearray()
    while len(data) < size:
        received = stream.recv(size - len(data))
        if not received:
            return b""
        data += received
    return bytes(data)


@contextmanager
def proxied(directory: Path, **settings: str) -> Iterator[tuple[Cluster, CountingProxy, str]]:
    """Yields a cluster of one broker, the proxy in front of it, and the proxy's address."""
    broker_port, proxy_port = free_ports(2)
    proxy = CountingProxy(proxy_port, broker_port)
    address = f"127.0.0.1:{proxy_port}"
    properties = {"advertised.listeners": f"BROKER://{address}", **settings}
    try:
        with Cluster.start(directory, port=broker_port, properties=properties) as cluster:
            yield cluster, proxy, address
    finally:
        proxy.close()
