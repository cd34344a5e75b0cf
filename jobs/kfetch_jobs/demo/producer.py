"""Makes a topic, produces click events to it at a steady rate, and counts acknowledged events.

One request is in flight at a time. It has a record batch for each partition and ``acks=all``.
There are no retries: an error ends the stream. A late request carries more events.
"""

from __future__ import annotations

import socket
import threading
import time
import warnings
from typing import Any

from kfetch_jobs.demo import events
from kfetch_jobs.errors import DemoError
from kfetch_jobs.kafka.ready import exchange

TICK_S = 0.05
EVENTS_PER_REQUEST_MAX = 50_000
_TIMEOUT_S = 30


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Make the topic, and wait until the leader of each partition answers."""
    from kafka import KafkaAdminClient

    topics = {topic: {"num_partitions": partitions, "replication_factor": 1}}
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(topics, wait_for_metadata=True)
    # Metadata names a leader a moment before that broker knows it. Until then the broker refuses
    # records with NOT_LEADER_OR_FOLLOWER. A request for offsets waits for the leader.
    count_events(bootstrap, topic, partitions)


def count_events(bootstrap: str, topic: str, partitions: int) -> int:
    """Returns the sum of the partitions' log ends, from the broker."""
    from kafka import KafkaConsumer, TopicPartition

    parts = [TopicPartition(topic, number) for number in range(partitions)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kafka-python warns about itself
        consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        try:
            return int(sum(consumer.end_offsets(parts).values()))
        finally:
            consumer.close()


class Producer(threading.Thread):
    """Produces one event per partition, waits for ``go``, then produces ``rate`` events per second.

    The first events let the job prove that it runs, before the steady stream starts.
    """

    def __init__(self, address: str, topic: str, *, partitions: int, rate: int, total: int) -> None:
        super().__init__(name="demo-producer", daemon=True)
        self._address = address
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._total = total
        self._go = threading.Event()
        self._stop_event = threading.Event()
        self.acknowledged = 0
        self.log_ends: dict[int, int] = {}
        """Each partition's log end after its latest acknowledged batch."""
        self.curve: list[tuple[float, int]] = []
        """Pairs from ``go`` on: seconds since 1970, events acknowledged so far."""
        self.failure: Exception | None = None

    def go(self) -> None:
        """Start the steady stream."""
        self._go.set()

    def stop(self) -> None:
        """End the stream, and wait for the request in flight."""
        self._stop_event.set()
        self._go.set()
        if self.is_alive():
            self.join(_TIMEOUT_S)

    def check(self) -> None:
        """Raises DemoError if an error has ended the stream."""
        if self.failure is not None:
            raise DemoError(f"the producer failed: {self.failure}") from self.failure

    def run(self) -> None:
        """Produce all events. ``check`` raises the error, if one ends the thread."""
        try:
            host, port = self._address.rsplit(":", 1)
            with socket.create_connection((host, int(port)), _TIMEOUT_S) as connection:
                self._stream(connection)
        except Exception as cause:
            self.failure = cause

    def _stream(self, connection: socket.socket) -> None:
        self._send(connection, min(self._partitions, self._total))
        self._go.wait()
        started = time.monotonic()
        self.curve = [(time.time(), self.acknowledged)]
        while self.acknowledged < self._total and not self._stop_event.is_set():
            due = min(self._total, int((time.monotonic() - started) * self._rate))
            if due > self.acknowledged:
                self._send(connection, due)
            self._stop_event.wait(TICK_S)

    def _send(self, connection: socket.socket, due: int) -> None:
        last = min(due, self.acknowledged + EVENTS_PER_REQUEST_MAX)
        event_ids = range(self.acknowledged, last)
        batches = events.encode(event_ids, self._partitions, int(time.time() * 1000))
        for partition, base in _produce(connection, self._topic, batches).items():
            first = (partition - event_ids.start) % self._partitions
            count = len(range(first, len(event_ids), self._partitions))
            self.log_ends[partition] = base + count
        self.acknowledged = last
        self.curve.append((time.time(), last))


def _produce(connection: socket.socket, topic: str, batches: dict[int, bytes]) -> dict[int, int]:
    """Send one request. Returns the base offset of each partition.

    Raises DemoError if the broker answers with an error code.
    """
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
    reply = exchange(connection, request, ProduceResponse[9])
    return {part.index: _base_offset(part) for part in reply.responses[0].partition_responses}


def _base_offset(part: Any) -> int:
    if part.error_code:
        raise DemoError(f"partition {part.index} answers with error code {part.error_code}")
    return int(part.base_offset)
