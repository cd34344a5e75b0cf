"""Record batches to Arrow on one core: kernel, reference and kafka-python's reader, codec by codec.

No broker and no Spark: what a reply's bytes cost after they have arrived. Rows have a value of
100 bytes and no key. kafka-python reads what it needs no further package for: plain and gzip.
Run: ``python integration/benchmarks/decode.py``.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from typing import Any

import cramjam
import crc32c
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from spark_source.model import TopicPartition
from spark_source.records import Columns, Slice, decoder
from spark_source.records.sections import sections

CODECS: dict[str, tuple[int, Callable[[bytes], Any]]] = {
    "none": (0, bytes),
    "lz4": (3, cramjam.lz4.compress),
    "zstd": (4, lambda data: cramjam.zstd.compress(data, level=3)),
    "snappy": (2, lambda data: xerial(data)),
    "gzip": (1, cramjam.gzip.compress),
}
BATCH_BYTES = {"16 KiB": 16 << 10, "1 MiB": 1 << 20}  # the producer's default; a tuned producer
ROWS = {"kernel": 1_000_000, "reference": 20_000, "kafka-python": 20_000}
TP = TopicPartition("clicks", 3)


def _value(rng: random.Random) -> bytes:
    """100 bytes like JSON: names repeat, numbers don't."""
    text = f'{{"user": {rng.getrandbits(60)}, "page": "/item/{rng.randrange(10**6)}", "ms": '
    return f"{text}{rng.random()}".encode().ljust(99, b" ")[:99] + b"}"


def xerial(data: bytes) -> bytes:
    """Snappy as Java writes it: a header, then blocks of 32 KiB, each behind its length."""
    out = bytearray(b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    for at in range(0, len(data), 32 << 10):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + (32 << 10)]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


def _reply(rows: int, codec: str, batch_bytes: int) -> bytes:
    """About ``rows`` records in batches, as a broker would send them."""
    rng, out, offset = random.Random(7), bytearray(), 0
    values = [_value(rng) for _ in range(10_000)]
    number, compress = CODECS[codec]
    while offset < rows:
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, batch_bytes)
        count = 0
        while offset + count < rows and builder.append(
            count, 1_700_000_000_000 + count, None, values[(offset + count) % 10_000], []
        ):
            count += 1
        batch = builder.build()
        batch[61:] = bytes(compress(bytes(batch[61:])))
        struct.pack_into(">qi", batch, 0, offset, len(batch) - 12)
        struct.pack_into(">h", batch, 21, number)
        struct.pack_into(">I", batch, 17, crc32c.crc32c(batch[21:]))
        out += batch
        offset += count
    return bytes(out)


def _best(work: Callable[[], object], seconds: float = 1.0) -> float:
    """Seconds of the fastest run; one before it loads the kernel and warms the memory."""
    work()
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def _kafka_python(reply: bytes) -> int:
    records, rows = MemoryRecords(reply), 0
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        rows += len([(r.key, r.value, r.offset, r.timestamp) for r in batch])
    return rows


def _runner(name: str, reply: bytes) -> Callable[[], object]:
    if name == "kafka-python":
        return lambda: _kafka_python(reply)
    decode, part = decoder(name), Slice(tp=TP, start=0, end=1 << 60, data=memoryview(reply))
    return lambda: decode(sections([part], check_crcs=True), columns=Columns(headers=True))


def main() -> None:
    """Print one line per batch size, codec and decoder."""
    crc32c.crc32c(b"")  # the library's first call picks its instructions
    print("batch    codec    decoder          rows/s    MB/s on the wire   MB/s of values")
    for size, batch_bytes in BATCH_BYTES.items():
        for codec in CODECS:
            for name, rows in ROWS.items():
                if name == "kafka-python" and codec not in ("none", "gzip"):
                    continue
                reply = _reply(rows, codec, batch_bytes)
                seconds = _best(_runner(name, reply))
                wire, values = len(reply) / seconds / 1e6, rows * 100 / seconds / 1e6
                rate = f"{rows / seconds:12,.0f} {wire:19,.1f} {values:16,.1f}"
                print(f"{size:8} {codec:8} {name:12} {rate}", flush=True)


if __name__ == "__main__":
    main()
