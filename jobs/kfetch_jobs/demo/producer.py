"""A steady stream of click events into one topic, counted as the broker acknowledges them.

One request in flight with a batch for every partition, ``acks=all``, no retries: what was not
acknowledged is not counted, and an error ends the stream. A request that comes late carries more.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Any

from kfetch_jobs.demo import events
from kfetch_jobs.errors import DemoError

__all__ = ["Producer"]

TICK_S = 0.05
EVENTS_PER_REQUEST_MAX = 50_000
_TIMEOUT_S = 30


class Producer(threading.Thread):
    """Produces one event per partition, waits for ``go``, then the rest at ``rate`` a second.

    The first few let the job show that it runs: a steady stream needs somebody to follow it.
    """

    def __init__(self, address: str, topic: str, *, partitions: int, rate: int, total: int) -> None:
        super().__init__(name="demo-producer", daemon=True)
        self._address = address
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._total = total
        self._going = threading.Event()
        self._ending = threading.Event()
        self.acknowledged = 0
        self.log_ends: dict[int, int] = {}
        """Each partition's end offset after its latest acknowledged batch."""
        self.curve: list[tuple[float, int]] = []
        """(seconds since 1970, events acknowledged by then), from ``go`` on"""
        self.failure: Exception | None = None

    def go(self) -> None:
        """Begin the stream."""
        self._going.set()

    def stop(self) -> None:
        """End the stream early, and wait for the request in flight."""
        self._ending.set()
        self._going.set()
        if self.is_alive():
            self.join(_TIMEOUT_S)

    def check(self) -> None:
        """Raise what ended the stream, if that was an error."""
        if self.failure is not None:
            raise DemoError(f"the producer failed: {self.failure}") from self.failure

    def run(self) -> None:
        """The thread's work; errors are kept for ``check``."""
        try:
            host, port = self._address.rsplit(":", 1)
            with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
                self._stream(connection)
        except Exception as cause:
            self.failure = cause

    def _stream(self, connection: socket.socket) -> None:
        self._send(connection, min(self._partitions, self._total))
        self._going.wait()
        started = time.monotonic()
        self.curve = [(time.time(), self.acknowledged)]
        while self.acknowledged < self._total and not self._ending.is_set():
            due = min(self._total, int((time.monotonic() - started) * self._rate))
            if due > self.acknowledged:
                self._send(connection, due)
            self._ending.wait(TICK_S)

    def _send(self, connection: socket.socket, due: int) -> None:
        last = min(due, self.acknowledged + EVENTS_PER_REQUEST_MAX)
        wanted = range(self.acknowledged, last)
        batches = events.encode(wanted, self._partitions, int(time.time() * 1000))
        for partition, base in _produce(connection, self._topic, batches).items():
            count = len(
                range((partition - wanted.start) % self._partitions, len(wanted), self._partitions)
            )
            self.log_ends[partition] = base + count
        self.acknowledged = last
        self.curve.append((time.time(), last))


def _produce(connection: socket.socket, topic: str, batches: dict[int, bytes]) -> dict[int, int]:
    """Each partition's base offset, as the broker acknowledges it. Raises for any error code."""
    from kafka.protocol.producer import ProduceRequest, ProduceResponse

    topic_data = ProduceRequest.TopicProduceData
    data = [
        topic_data.PartitionProduceData(index=partition, records=records)
        for partition, records in batches.items()
    ]
    request = ProduceRequest[9](
        acks=-1,
        timeout_ms=_TIMEOUT_S * 1000,
        topic_data=[topic_data(name=topic, partition_data=data)],
    )
    request.with_header(correlation_id=1, client_id="kfetch-demo")
    connection.sendall(request.encode(header=True, framed=True))
    (length,) = struct.unpack(">i", _read(connection, 4))
    reply = ProduceResponse[9].decode(_read(connection, length), header=True)
    return {part.index: _base_offset(part) for part in reply.responses[0].partition_responses}


def _base_offset(part: Any) -> int:
    if part.error_code:
        raise DemoError(f"partition {part.index} answers with error code {part.error_code}")
    return int(part.base_offset)


def _read(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionResetError("the broker closed the connection")
        data += part
    return bytes(data)
