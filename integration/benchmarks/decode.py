"""Record batches to Arrow on one core: what a reply's bytes cost after they have arrived.

    python -m integration.benchmarks.decode [--clients] [--json FILE]

No Spark. Replies of 4 MiB (what becomes one Arrow batch) lie in 48 MiB of memory and are decoded by
turns, so they come from memory and not from a cache, and so does what memcpy copies beside them, by
turns with decoding. A row's value is like JSON; "k" has a key of 8 bytes too, "kh" also two
headers. The best turn counts.

With ``--clients`` a topic of a real broker, 2,000,000 values of 100 B, is read whole by kfetch
(without Spark), confluent-kafka and kafka-python, each into Arrow, by turns. The time is from the
first Arrow batch to the last: nobody's start counts. All check CRCs. kfetch is read as Spark reads
it (an agent of its own decodes) and inline (all in one process, as the others are, whose
librdkafka has threads too); the best of three turns counts.
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
from functools import partial
from pathlib import Path
from typing import Any

import cramjam
import crc32c
import numpy as np
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.record.default_records import DefaultRecordBatchBuilder

from kfetch import decoding, model
from kfetch.records import SCHEMA, Columns, Slice

MIB = 1 << 20
REPLY_BYTES, REPLIES, BATCH_BYTES = 4 * MIB, 12, 1 * MIB
SIZES = {"10 B": 10, "100 B": 100, "1 KiB": 1024, "64 KiB": 64 << 10}
CODECS: dict[str, tuple[int, Callable[[bytes], Any]]] = {
    "none": (0, bytes),
    "lz4": (3, lambda data: lz4_frame(data)),
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


def lz4_frame(data: bytes) -> bytes:
    """LZ4 as Java and librdkafka write it: blocks of 64 KiB, each for itself, without checksums."""
    out = bytearray(bytes.fromhex("04224d18 60 40 82"))  # magic, flags, block size, their checksum
    for at in range(0, len(data), 64 << 10):
        plain = data[at : at + (64 << 10)]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        small = len(block) < len(plain)
        out += struct.pack("<I", len(block) if small else len(plain) | 1 << 31)
        out += block if small else plain
    return bytes(out + bytes(4))


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


def best(*works: Callable[[int], object], seconds: float = 0.6) -> list[float]:
    """Seconds of each one's fastest turn, all under the same weather: rounds alternate."""
    fastest, until = [float("inf")] * len(works), 0.0
    while not until or time.perf_counter() < until:
        for number, work in enumerate(works):
            for turn in range(REPLIES):
                began = time.perf_counter()
                work(turn)
                fastest[number] = min(fastest[number], time.perf_counter() - began)
        until = until or time.perf_counter() + seconds  # the first round warmed the memory up
    return fastest


def measure(data: bytes, rows: int, columns: Columns) -> dict[str, float]:
    """Rates of decoding one reply, and of copying it."""
    copies = [np.frombuffer(data, np.uint8).copy() for _ in range(REPLIES)]
    target = np.empty(len(data), np.uint8)
    tp = model.TopicPartition("clicks", 3)
    slices = [Slice(tp=tp, start=0, end=1 << 60, data=memoryview(copy)) for copy in copies]
    seconds, copying = best(
        lambda turn: decoding.decode_part([slices[turn]], columns=columns),
        lambda turn: np.copyto(target, copies[turn]),
    )
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
from kfetch import decoding, model, records
decoding.load()
ready = time.perf_counter() - began
tp = model.TopicPartition("clicks", 3)
part = records.Slice(tp=tp, start=0, end=1 << 60, data=memoryview(sys.stdin.buffer.read()))
assert decoding.decode_part([part])[0] is not None
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


def clients(rows: int = 2_000_000, size: int = 100) -> dict[str, float]:
    """Rows a second of clients that read one topic of a real broker into Arrow."""
    from integration.benchmarks.fill import fill
    from kfetch_jobs.kafka import Cluster

    readers: dict[str, Callable[[str], Iterator[int]]] = {
        "kfetch": by_kfetch,
        "kfetch inline": partial(by_kfetch, agent="inline"),
        "confluent-kafka": by_confluent,
        "kafka-python": by_kafka_python,
    }
    rates = dict.fromkeys(readers, 0.0)
    with tempfile.TemporaryDirectory() as directory, Cluster.start(Path(directory)) as cluster:
        fill(cluster, "clients", partitions=1, records=rows, size=size)
        for _ in range(3):
            for name, read in readers.items():
                with closing(read(cluster.bootstrap_servers)) as found:
                    rates[name] = max(rates[name], rate(found, rows))
    return rates


def rate(found: Iterator[int], wanted: int) -> float:
    """Rows a second behind the first Arrow batch, whose rows don't count either."""
    first = next(count for count in found if count)
    began, rows = time.perf_counter(), 0
    while first + rows < wanted:
        rows += next(found)
    return rows / (time.perf_counter() - began)


def by_kfetch(bootstrap: str, agent: str = "process") -> Iterator[int]:
    """The worker's half, from the driver's plan to Arrow batches: their rows."""
    from kfetch.spark import worker
    from kfetch.spark.options import parse
    from kfetch.watch.driver import Driver

    asked = parse(
        {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": "clients",
            "startingOffsets": "earliest",
            "kfetch.agent": agent,
        }
    )
    with closing(Driver(asked)) as driver:
        start = driver.initial_offsets()
        end = driver.next_end(start, None)
        assert end is not None
        splits = driver.splits(start, end)
    for split in splits:
        for batch in worker.read(split, asked):
            yield batch.num_rows


def by_confluent(bootstrap: str) -> Iterator[int]:
    """librdkafka's consumer, 10,000 messages at a time."""
    import confluent_kafka

    given = {"bootstrap.servers": bootstrap, "group.id": "b", "check.crcs": True}
    with closing(confluent_kafka.Consumer(given)) as consumer:
        consumer.assign([confluent_kafka.TopicPartition("clients", 0, 0)])
        while True:
            found = consumer.consume(10_000, timeout=5)
            yield arrow(
                [message.key() for message in found],
                [message.value() for message in found],
                [message.topic() for message in found],
                [message.partition() for message in found],
                [message.offset() for message in found],
                [message.timestamp()[1] for message in found],
            )


def by_kafka_python(bootstrap: str) -> Iterator[int]:
    """kafka-python's consumer, 10,000 records at a time."""
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, max_poll_records=10_000)) as consumer:
        consumer.assign([TopicPartition("clients", 0)])
        consumer.seek_to_beginning()
        while True:
            for found in consumer.poll(5000).values():
                names = "key", "value", "topic", "partition", "offset", "timestamp"
                yield arrow(*([getattr(record, name) for record in found] for name in names))


FIELDS = [SCHEMA.field(name) for name in ("key", "value", "topic", "partition", "offset")] + [
    pa.field("timestamp", pa.timestamp("ms"))
]


def arrow(*columns: list[Any]) -> int:
    """The columns as an Arrow batch; how many rows it has."""
    arrays = [pa.array(each, field.type) for each, field in zip(columns, FIELDS, strict=True)]
    return int(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(FIELDS)).num_rows)


def cpu() -> str:
    """The CPU's name, LLVM's name of it, and how the compiled code checks CRCs on it."""
    from kfetch.compiled.cpu import crc_lanes, name_and_features

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    lanes = crc_lanes()
    crcs = f"{lanes} lanes" if lanes else "tables"
    return f"{names[0] if names else 'unknown'} ({name_and_features()[0]}), CRC-32C by {crcs}"


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", action="store_true", help="compare clients on a real broker")
    parser.add_argument("--json", type=Path, help="write all figures there")
    given = parser.parse_args()
    found: dict[str, Any] = {"cpu": cpu()}
    print(found["cpu"])
    if given.clients:
        found["clients"] = clients()
        for name, each in found["clients"].items():
            times = [found["clients"][ours] / each for ours in ("kfetch", "kfetch inline")]
            print(
                f"{name:16} {each:12,.0f} rows/s   kfetch {times[0]:5.1f}, inline {times[1]:5.1f}"
            )
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
