"""Records of every kind that Kafka can hold, and three readers: kafka-python, kfetch and Spark.

kafka-python's consumer is the reference. A row is (key, value, topic, partition, offset, timestamp
in milliseconds, timestampType, headers). ``headers`` is None if the record has no headers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
from kafka import KafkaProducer, TopicPartition
from kafka.record import default_records

from integration.records import consumed
from kfetch.spark import worker
from kfetch.spark.options import parse
from kfetch.watch.driver import Driver
from kfetch_jobs.kafka import Cluster

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
MIB = 1 << 20

Row = tuple[Any, ...]


class Content(NamedTuple):
    """The parts of a record that a producer chooses."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    """Milliseconds since 1970; None: kafka-python takes the time of sending."""


def mixed() -> list[Content]:
    """Nulls, empties, Unicode, headers of every kind, large values and many small ones."""
    rng = random.Random(1)
    keys_and_values = (None, b"", b"\x00", "schlüssel ключ 鍵 🔑".encode(), b"\xff\xfe not UTF-8")
    header_lists: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
        (),
        (("h", b"1"),),
        (("h", None),),
        (("h", b""), ("", b"unnamed")),
        (("again", b"1"), ("again", None), ("again", b"3")),
        (("größe 大きさ 📏", "naïve".encode()), ("n" * 300, b"v" * 3000)),
    )
    records = [
        Content(key, value, headers)
        for key in keys_and_values
        for value in keys_and_values
        for headers in header_lists
    ]
    records += [Content(b"k%d" % n, b"v" * rng.randrange(200)) for n in range(2000)]
    records += [Content(b"large", rng.randbytes(MIB)), Content(b"large", b"A" * MIB)]
    rng.shuffle(records)
    return records


def append(producer: KafkaProducer, partition: TopicPartition, records: Iterable[Content]) -> None:
    """Append records without ``KafkaProducer.send``.

    ``send`` refuses null header values, and records that have neither key nor value.
    """
    producer.partitions_for(partition.topic)  # fetches the topic's metadata
    for record in records:
        producer._accumulator.append(
            partition, record.timestamp, record.key, record.value, list(record.headers)
        )
        producer._sender.wakeup()


@contextmanager
def every_codec() -> Iterator[None]:
    """Lets kafka-python compress and decompress with pyarrow, and send null header values.

    kafka-python knows three packages for codecs, and none of them is installed. The codecs are not
    kfetch's: a test would not see a mistake that both sides share. kafka-python writes null header
    values, but fails when it counts their bytes.
    """
    snappy = SimpleNamespace(compress=_compressor("snappy"), decompress=_unsnappy)
    with (
        patch("kafka.producer.producer_batch.len", _length_or_zero, create=True),
        patch("kafka.codec.snappy", snappy),
        patch("kafka.codec.lz4", True),
        patch("kafka.codec.zstd", True),
        patch.object(default_records, "lz4_encode", _compressor("lz4")),
        patch.object(default_records, "lz4_decode", _decompressor("lz4")),
        patch.object(default_records, "zstd_encode", _compressor("zstd")),
        patch.object(default_records, "zstd_decode", _decompressor("zstd")),
    ):
        yield


def _length_or_zero(value: Any) -> int:
    return 0 if value is None else len(value)


def _compressor(codec: str) -> Any:
    return lambda data: pa.compress(data, codec=codec, asbytes=True)


def _decompressor(codec: str) -> Any:
    return lambda data: pa.input_stream(pa.py_buffer(data), compression=codec).read()


def _unsnappy(data: bytes) -> bytes:
    size = shift = at = 0
    while True:  # the data starts with a varint: its size when decompressed
        size |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return pa.decompress(data, decompressed_size=size, codec="snappy", asbytes=True)


def by_kafka_python(cluster: Cluster, topic: str) -> list[Row]:
    """The rows of a topic that kafka-python's consumer sees."""
    return [
        (
            record.key,
            record.value,
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            list(record.headers) or None,
        )
        for record in consumed(cluster, topic)
    ]


def by_worker(cluster: Cluster, topic: str, **options: str) -> list[Row]:
    """The rows of a topic that kfetch's driver plans and its worker reads, without Spark."""
    parsed = parse(
        {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "kfetch.agent": "inline",
        }
        | options
    )
    driver = Driver(parsed)
    try:
        start = driver.initial_offsets()
        end = driver.next_end(start, None)
        splits = [] if end is None else driver.splits(start, end)
        batches = [batch for split in splits for batch in worker.read(split, parsed)]
    finally:
        driver.close()
    return sorted((row for batch in batches for row in _rows(batch)), key=_position)


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    columns = [column.to_pylist() for column in batch.drop_columns(["timestamp", "headers"])]
    micros = batch.column("timestamp").cast(pa.int64()).to_pylist()
    headers = batch.column("headers").to_pylist()
    for (*front, timestamp_type), micro, header_structs in zip(
        zip(*columns, strict=True), micros, headers, strict=True
    ):
        assert 0 == micro % 1000
        pairs = None if header_structs is None else [(h["key"], h["value"]) for h in header_structs]
        yield (*front, micro // 1000, timestamp_type, pairs)


def by_spark(rows: Iterable[Any]) -> list[Row]:
    """The rows that Spark sees. Their column ``millis`` is the timestamp."""
    return sorted((_spark_row(row) for row in rows), key=_position)


def _spark_row(row: Any) -> Row:
    headers = None if row.headers is None else [(h.key, _bytes(h.value)) for h in row.headers]
    middle = (row.topic, row.partition, row.offset, row.millis, row.timestampType)
    return (_bytes(row.key), _bytes(row.value), *middle, headers)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _position(row: Row) -> tuple[str, int, int]:
    return row[2], row[3], row[4]
