"""Record batches to Arrow on one core: what a reply's bytes cost after they have arrived.

    python -m integration.benchmarks.decode [--clients] [--json FILE]

No Spark. Replies of 4 MiB (what becomes one Arrow batch) lie in 48 MiB of memory and are decoded by
turns, so they come from memory and not from a cache, and so does what memcpy copies beside them. A
row's value is like JSON; "k" has a key of 8 bytes too, "kh" also two headers. With ``--clients`` a
real broker is read by kfetch (without Spark), confluent-kafka and kafka-python, each into Arrow.
All check CRCs, all pay for connecting, and the best of three turns counts.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import cramjam
import crc32c
import numpy as np
import pyarrow as pa
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.record.default_records import DefaultRecordBatchBuilder

from spark_source import model, records
from spark_source.records import Columns, Slice

MIB = 1 << 20
REPLY_BYTES, REPLIES, BATCH_BYTES = 4 * MIB, 12, 1 * MIB
SIZES = {"10 B": 10, "100 B": 100, "1 KiB": 1024, "64 KiB": 64 << 10}
CODECS: dict[str, tuple[int, Callable[[bytes], Any]]] = {
    "none": (0, bytes),
    "lz4": (3, cramjam.lz4.compress),
    "zstd": (4, lambda data: cramjam.zstd.compress(data, level=3)),
    "snappy": (2, lambda data: xerial(data)),
    "gzip": (1, cramjam.gzip.compress),
}
Batch = tuple[bytes, int]
"""An uncompressed batch and the number of its records."""


def value(rng: random.Random, size: int) -> bytes:
    """Bytes like JSON: names repeat, numbers don't."""
    out = bytearray()
    while len(out) < size:
        text = f'{{"user": {rng.getrandbits(60)}, "page": "/item/{rng.randrange(10**6)}", "ms": '
        out += f"{text}{rng.random()}}}".encode()
    return bytes(out[:size])


def xerial(data: bytes) -> bytes:
    """Snappy as Java writes it: a header, then blocks of 32 KiB, each behind its length."""
    out = bytearray(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    for at in range(0, len(data), 32 << 10):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + (32 << 10)]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def batches(size: int, total: int, batch_bytes: int, kind: str = "") -> Iterator[Batch]:
    """Batches of values of a size, as a producer would make them."""
    rng, left = random.Random(7), total
    values = [value(rng, size) for _ in range(min(2000, total // size + 1))]
    key = b"12345678" if "k" in kind else None
    headers = [("trace", b"0123456789abcdef"), ("v", b"1")] if "h" in kind else []
    while left > 0:
        builder, count = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, batch_bytes), 0
        while builder.append(
            count, 1_700_000_000_000 + count, key, values[count % 2000 % len(values)], headers
        ):
            count += 1
        built = bytes(builder.build())
        left -= len(built)
        yield built, count


def reply(made: list[Batch], codec: str) -> tuple[bytes, int]:
    """The batches packed and numbered as a broker would send them, and the number of rows."""
    out, offset = bytearray(), 0
    number, compress = CODECS[codec]
    for built, count in made:
        batch = bytearray(built)
        batch[61:] = bytes(compress(bytes(batch[61:])))
        struct.pack_into(">qi", batch, 0, offset, len(batch) - 12)
        struct.pack_into(">h", batch, 21, number)
        struct.pack_into(">I", batch, 17, crc32c.crc32c(batch[21:]))
        out += batch
        offset += count
    return bytes(out), offset


def best(work: Callable[[int], object], seconds: float = 0.4) -> float:
    """Seconds of the fastest turn; one round before warms the memory up."""
    for turn in range(REPLIES):
        work(turn)
    fastest, turn, until = float("inf"), 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        work(turn % REPLIES)
        fastest = min(fastest, time.perf_counter() - began)
        turn += 1
    return fastest


def measure(data: bytes, rows: int, columns: Columns) -> dict[str, float]:
    """Rates of decoding one reply, and of copying it."""
    copies = [np.frombuffer(data, np.uint8).copy() for _ in range(REPLIES)]
    target = np.empty(len(data), np.uint8)
    tp = model.TopicPartition("clicks", 3)
    slices = [Slice(tp=tp, start=0, end=1 << 60, data=memoryview(copy)) for copy in copies]
    seconds = best(lambda turn: records.decode([slices[turn]], columns=columns))
    copying = best(lambda turn: np.copyto(target, copies[turn]), 0.2)
    return {
        "rows_per_second": rows / seconds,
        "wire_mb_per_second": len(data) / seconds / 1e6,
        "of_memcpy": copying / seconds,
    }


def table() -> list[dict[str, Any]]:
    """Every size and codec, with and without keys and headers."""
    print("value    batch    codec   with        rows/s  MB/s (wire)  of memcpy's speed")
    found = []
    for kind in ("", "k", "kh"):
        for name, size in SIZES.items():
            for batch_bytes in (BATCH_BYTES, 16 << 10) if not kind else (BATCH_BYTES,):
                if size >= batch_bytes:
                    continue
                made = list(batches(size, REPLY_BYTES, batch_bytes, kind))
                for codec in CODECS:
                    data, rows = reply(made, codec)
                    got = measure(data, rows, Columns(headers="h" in kind))
                    label = f"{batch_bytes >> 10} KiB"
                    print(
                        f"{name:8} {label:8} {codec:7} {kind:3} {got['rows_per_second']:14,.0f} "
                        f"{got['wire_mb_per_second']:12,.0f} {got['of_memcpy']:11.2f}",
                        flush=True,
                    )
                    found.append(
                        {"value": name, "batch": label, "codec": codec, "with": kind, **got}
                    )
    return found


FIRST = """
import time, pyarrow, numpy, sys
began = time.perf_counter()
from spark_source import model, records
records.load()
ready = time.perf_counter() - began
tp = model.TopicPartition("clicks", 3)
part = records.Slice(tp=tp, start=0, end=1 << 60, data=memoryview(sys.stdin.buffer.read()))
assert records.decode([part]) is not None
print(ready, time.perf_counter() - began)
"""


def first() -> dict[str, float]:
    """Seconds until a fresh process has its decoder, compiled and from the cache; then its rows.

    ``process_s`` is the whole process, from its start: Python's, numpy's and pyarrow's imports too.
    """
    data, _ = reply(list(batches(100, MIB, BATCH_BYTES)), "none")
    taken = []
    with tempfile.TemporaryDirectory() as directory:
        command, environ = [sys.executable, "-c", FIRST], {"KFETCH_CACHE": directory}
        for _ in range(4):
            began = time.perf_counter()
            done = subprocess.run(
                command, env=environ, input=data, capture_output=True, check=True, timeout=120
            )
            taken.append((*map(float, done.stdout.split()), time.perf_counter() - began))
    ready, rows, process = (min(each) for each in zip(*taken[1:], strict=True))
    return {"cold_s": taken[0][0], "warm_s": ready, "rows_s": rows, "process_s": process}


def clients(rows: int = 1_000_000, size: int = 100) -> dict[str, float]:
    """Rows a second of three clients that read one topic of a real broker into Arrow."""
    from integration.benchmarks.fill import fill
    from jobs.kafka import Cluster

    readers = {
        "kfetch": by_kfetch,
        "confluent-kafka": by_confluent,
        "kafka-python": by_kafka_python,
    }
    rates = dict.fromkeys(readers, 0.0)
    with tempfile.TemporaryDirectory() as directory, Cluster.start(Path(directory)) as cluster:
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
            asked = {"clients": {"num_partitions": 1, "replication_factor": 1}}
            admin.create_topics(asked, wait_for_metadata=True)
        fill(cluster, "clients", records=rows, size=size)
        for _ in range(3):
            for name, read in readers.items():
                wanted = rows if name != "kafka-python" else rows // 5
                began = time.perf_counter()
                got = read(cluster.bootstrap_servers, wanted)
                rates[name] = max(rates[name], got / (time.perf_counter() - began))
    return rates


def by_kfetch(bootstrap: str, rows: int) -> int:
    """The worker's half, from the driver's plan to Arrow batches."""
    from spark_source import worker
    from spark_source.options import parse
    from spark_source.watch.driver import Driver

    asked = parse(
        {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": "clients",
            "startingOffsets": "earliest",
        }
    )
    with closing(Driver(asked)) as driver:
        start = driver.initial()
        end = driver.latest(start, None)
        assert end is not None
        splits = driver.splits(start, end)
    return sum(batch.num_rows for split in splits for batch in worker.read(split, asked))


def by_confluent(bootstrap: str, rows: int) -> int:
    """librdkafka's consumer, 10,000 messages at a time."""
    import confluent_kafka

    given = {"bootstrap.servers": bootstrap, "group.id": "b", "check.crcs": True}
    with closing(confluent_kafka.Consumer(given)) as consumer:
        consumer.assign([confluent_kafka.TopicPartition("clients", 0, 0)])
        done = 0
        while done < rows:
            found = consumer.consume(10_000, timeout=5)
            done += arrow(
                [
                    (m.key(), m.value(), m.topic(), m.partition(), m.offset(), m.timestamp()[1])
                    for m in found
                ]
            )
    return done


def by_kafka_python(bootstrap: str, rows: int) -> int:
    """kafka-python's consumer, 10,000 records at a time."""
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, max_poll_records=10_000)) as consumer:
        consumer.assign([TopicPartition("clients", 0)])
        consumer.seek_to_beginning()
        done = 0
        while done < rows:
            for found in consumer.poll(5000).values():
                done += arrow(
                    [(r.key, r.value, r.topic, r.partition, r.offset, r.timestamp) for r in found]
                )
    return done


def arrow(rows: list[tuple[Any, ...]]) -> int:
    """Rows to an Arrow batch; how many there are."""
    if not rows:
        return 0
    schema = pa.schema([field for field in records.SCHEMA if field.name != "timestampType"])
    schema = schema.set(5, pa.field("timestamp", pa.timestamp("ms")))
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    return int(pa.RecordBatch.from_arrays(columns, schema=schema).num_rows)


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", action="store_true", help="compare clients on a real broker")
    parser.add_argument("--json", type=Path, help="write all figures there")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    if given.clients:
        found["clients"] = clients()
        ours = found["clients"]["kfetch"]
        for name, rate in found["clients"].items():
            print(f"{name:16} {rate:12,.0f} rows/s   kfetch {ours / rate:6.1f} times")
    else:
        found["first"] = first()
        print(
            "decoder ready: compiled {cold_s:.2f} s, from the cache {warm_s:.2f} s, first rows "
            "{rows_s:.2f} s; the whole process {process_s:.2f} s".format(**found["first"])
        )
        found["decode"] = table()
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
