"""A TCP proxy in front of one broker that counts requests and bytes by API.

The broker must advertise the proxy's port, so that clients stay behind it: ``proxied`` starts both.
Frames are counted with their length prefix, as they are on the wire (without TCP/IP headers).
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
_HEAD = struct.Struct(">ihh")  # length, API key, API version
_LENGTH = struct.Struct(">i")


@dataclass(slots=True)
class Tally:
    """Requests of one API and their replies; sizes in bytes."""

    requests: int = 0
    request_bytes: int = 0
    replies: int = 0
    reply_bytes: int = 0

    @property
    def mean_request(self) -> float:
        """Bytes of a request."""
        return self.request_bytes / max(1, self.requests)

    @property
    def mean_reply(self) -> float:
        """Bytes of a reply."""
        return self.reply_bytes / max(1, self.replies)


class CountingProxy:
    """Forwards connections to a port of this machine."""

    def __init__(self, port: int, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._tallies: dict[str, Tally] = {}
        self._streams: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, daemon=True).start()

    def taken(self) -> dict[str, Tally]:
        """What was counted since the last call, by the API's name."""
        with self._lock:
            taken, self._tallies = self._tallies, {}
        return {name: replace(tally) for name, tally in taken.items()}

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
                asked: deque[str] = deque()
                for pump in (self._requests, self._replies):
                    threading.Thread(target=pump, args=(client, broker, asked), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, asked: deque[str]) -> None:
        for frame in _frames(client, broker):
            _, key, _ = _HEAD.unpack_from(frame)
            name = APIS.get(key, f"API {key}")
            asked.append(name)
            with self._lock:
                tally = self._tallies.setdefault(name, Tally())
                tally.requests += 1
                tally.request_bytes += len(frame)
            broker.sendall(frame)

    def _replies(self, client: socket.socket, broker: socket.socket, asked: deque[str]) -> None:
        for frame in _frames(broker, client):
            with self._lock:
                tally = self._tallies.setdefault(asked.popleft(), Tally())
                tally.replies += 1
                tally.reply_bytes += len(frame)
            client.sendall(frame)


def _frames(source: socket.socket, other: socket.socket) -> Iterator[bytes]:
    """Whole frames with their length, until either side ends; then both do."""
    try:
        while head := _exactly(source, _LENGTH.size):
            yield head + _exactly(source, _LENGTH.unpack(head)[0])
    except OSError:
        return
    finally:
        for stream in (source, other):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)


def _exactly(stream: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            return b""
        data += more
    return bytes(data)


@contextmanager
def proxied(directory: Path, **settings: str) -> Iterator[tuple[Cluster, CountingProxy, str]]:
    """One broker behind a proxy, the proxy, and the address for clients."""
    port, front = free_ports(2)
    proxy = CountingProxy(front, port)
    address = f"127.0.0.1:{front}"
    properties = {"advertised.listeners": f"BROKER://{address}", **settings}
    try:
        with Cluster.start(directory, port=port, properties=properties) as cluster:
            yield cluster, proxy, address
    finally:
        proxy.close()
