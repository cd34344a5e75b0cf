"""Records for the examples: ``python examples/produce.py [HOST:PORT] [COUNT]``.

It writes COUNT clicks of three users, ten seconds apart, and an order after every fifth click. One
further click is not JSON. Each user has a record, one user moves, and one is deleted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kafka import KafkaAdminClient, KafkaProducer

TOPICS = ("clicks", "orders", "users")
USERS = ("ann", "bob", "eve")
BEGINNING = datetime(2026, 11, 21, 12, tzinfo=UTC)


def records(count: int) -> Iterator[tuple[str, str, bytes]]:
    """Topic, key and value of each record, in the order in which they are sent."""
    for number in range(count):
        user, at = USERS[number % 3], BEGINNING + timedelta(seconds=10 * number)
        click = {"id": number, "user": user, "page": f"/{number % 2}", "at": at.isoformat()}
        yield "clicks", user, json.dumps(click).encode()
        if number % 5 == 4:
            paid = at + timedelta(seconds=5)
            order = {"id": number, "user": user, "amount": f"{number}.50", "at": paid.isoformat()}
            yield "orders", user, json.dumps(order).encode()
    yield "clicks", "ann", b"not JSON"
    for user, city in zip(USERS, ("Oslo", "Lima", "Rome"), strict=True):
        yield "users", user, json.dumps({"user": user, "city": city}).encode()
    yield "users", "bob", json.dumps({"user": "bob", "city": "Cusco"}).encode()
    yield "users", "eve", json.dumps({"user": "eve", "gone": True}).encode()


def main(servers: str = "127.0.0.1:9092", count: str = "30") -> None:
    """Make the topics if they are missing, and send everything."""
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        missing = set(TOPICS) - set(admin.list_topics())
        if missing:
            new = {name: {"num_partitions": 2, "replication_factor": 1} for name in missing}
            admin.create_topics(new, wait_for_metadata=True)
    producer = KafkaProducer(bootstrap_servers=servers)
    sent = 0
    for topic, key, value in records(int(count)):
        producer.send(topic, key=key.encode(), value=value)
        sent += 1
    producer.close()
    print(f"{sent} records sent to {', '.join(TOPICS)} at {servers}")


if __name__ == "__main__":
    main(*sys.argv[1:])
