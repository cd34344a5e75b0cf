"""Records that arrive all the time, by librdkafka's producer.

kafka-python's producer does not find a broker again after all brokers were down in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Message, Producer

from integration.brokers.cluster import ReleaseCluster


@contextmanager
def sending(cluster: ReleaseCluster, topic: str, partitions: int) -> Iterator[list[str]]:
    """Send a record to each partition every 5 ms. Yields the values that Kafka acknowledged.

    The producer waits for all replicas in sync. At the end of the block all records have arrived.
    """
    stop, acknowledged = threading.Event(), []

    def note(error: Any, message: Message) -> None:
        assert error is None, error
        acknowledged.append(message.value().decode())

    def send() -> None:
        number = 0
        while not stop.wait(0.005):
            for partition in range(partitions):
                value = f"{partition}-{number:06}"
                sender.produce(topic, value.encode(), partition=partition, on_delivery=note)
            number += 1
            sender.poll(0)

    sender = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
        }
    )
    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        thread.join(60)
        assert 0 == sender.flush(120)
