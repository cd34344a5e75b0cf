"""Makes tests/vectors/{librdkafka,kafka-python}: the log of a real broker, after each producer.

    python -m integration.interop.capture

A partition per codec; NAME.bin is the segment as the broker keeps it, NAME.jsonl the rows that the
same client's consumer sees.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka
from kafka import KafkaAdminClient

from integration.contract.content import CODECS, every_codec
from integration.records import consumed, producer
from kfetch_jobs.kafka import Cluster

VECTORS = Path(__file__).parents[2] / "tests" / "vectors"
RECORDS = 12
T0 = 1_700_000_000_000


def content(n: int) -> dict[str, Any]:
    """The n-th record: nulls and headers by turns."""
    return {
        "key": b"key %d" % n if n % 2 else None,
        "value": None if n % 7 == 6 else b"value " * (n % 5),
        "headers": [("h", b"%d" % n)] * (n % 3),
    }


def by_librdkafka(cluster: Cluster, topic: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Written with confluent-kafka, and read back: (partition, row)."""
    server = {"bootstrap.servers": cluster.bootstrap_servers}
    for partition, codec in enumerate(CODECS):
        sender = confluent_kafka.Producer(server | {"compression.type": codec or "none"})
        for n in range(RECORDS):
            sender.produce(topic, partition=partition, timestamp=T0 + n, **content(n))
        assert 0 == sender.flush(30)
    with closing(confluent_kafka.Consumer(server | {"group.id": "capture"})) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(len(CODECS))])
        for message in consumer.consume(RECORDS * len(CODECS), timeout=30):
            kind, time = message.timestamp()
            headers = message.headers() or []
            yield (
                message.partition(),
                row(message.offset(), time, kind - 1, message.key(), message.value(), headers),
            )


def by_kafka_python(cluster: Cluster, topic: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Written with kafka-python, and read back: (partition, row)."""
    with every_codec():
        for partition, codec in enumerate(CODECS):
            with producer(cluster, compression_type=codec, linger_ms=50) as sender:
                for n in range(RECORDS):
                    fields = content(n)
                    if fields["key"] is None and fields["value"] is None:
                        fields["value"] = b""  # it refuses to send neither
                    sender.send(topic, partition=partition, timestamp_ms=T0 + n, **fields)
        for r in consumed(cluster, topic):
            yield (
                r.partition,
                row(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers),
            )


def row(
    offset: int,
    time: int,
    kind: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Any],
) -> dict[str, Any]:
    """As tests/vectors has it. A new partition's leader epoch is 0."""
    listed = [[name, None if data is None else data.hex()] for name, data in headers]
    pair = [None if data is None else data.hex() for data in (key, value)]
    front = {"offset": offset, "timestamp": time, "type": kind, "epoch": 0}
    return front | {"key": pair[0], "value": pair[1], "headers": listed}


def main() -> None:
    """Write both directories."""
    clients = {"librdkafka": by_librdkafka, "kafka-python": by_kafka_python}
    with tempfile.TemporaryDirectory() as directory, Cluster.start(Path(directory)) as cluster:
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
            asked = {"num_partitions": len(CODECS), "replication_factor": 1}
            admin.create_topics(dict.fromkeys(clients, asked), wait_for_metadata=True)
        for client, run in clients.items():
            rows: dict[int, list[str]] = {p: [] for p in range(len(CODECS))}
            for partition, fields in run(cluster, client):
                rows[partition].append(json.dumps(fields, ensure_ascii=False))
            target = VECTORS / client
            target.mkdir(exist_ok=True)
            for partition, codec in enumerate(CODECS):
                (segment,) = Path(directory).glob(f"**/{client}-{partition}/*.log")
                (target / f"{codec or 'none'}.bin").write_bytes(segment.read_bytes())
                lines = "".join(f"{line}\n" for line in rows[partition])
                (target / f"{codec or 'none'}.jsonl").write_text(lines)
    print(f"{len(CODECS)} codecs of {', '.join(clients)} are in {VECTORS}")


if __name__ == "__main__":
    main()
