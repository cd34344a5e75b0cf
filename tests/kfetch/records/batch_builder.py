"""Builds record batches field by field, also batches that no client writes."""

from __future__ import annotations

import gzip
import struct
import warnings
from collections.abc import Callable, Iterable

import cramjam
import crc32c

from kfetch.model import TopicPartition
from kfetch.records import Slice
from kfetch.records.format import ATTRIBUTES_AT, PREFIX_BYTES

with warnings.catch_warnings():
    # kafka-python 3.0.12 reads its schemas with importlib.resources.read_text, deprecated in 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder

__all__ = ["DefaultRecordBatchBuilder", "MemoryRecords", "batch", "make_slice", "record"]

TP = TopicPartition("clicks", 3)
T0 = 1_700_000_000_000
Headers = Iterable[tuple[bytes, bytes | None]]


def varint(value: int) -> bytes:
    """Returns a zigzag varint, seven bits a byte."""
    raw, out = (value << 1) ^ (value >> 63), bytearray()
    raw &= 2**64 - 1
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes(out) + bytes([raw])


def blob(data: bytes | None) -> bytes:
    """Returns bytes behind their length; length -1 for null."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    offset: int = 0,
    value: bytes | None = b"v",
    key: bytes | None = None,
    headers: Headers = (),
    time: int = 0,
    attributes: int = 0,
) -> bytes:
    """Returns one record. ``offset`` and ``time`` are deltas."""
    listed = list(headers)
    body = bytes([attributes]) + varint(time) + varint(offset) + blob(key) + blob(value)
    body += varint(len(listed)) + b"".join(blob(k) + blob(v) for k, v in listed)
    return varint(len(body)) + body


def xerial(data: bytes, block: int = 40, version: bytes = b"\0\0\0\1\0\0\0\1") -> bytes:
    """Returns snappy blocks in the frame of Java's snappy library."""
    out = b"\x82SNAPPY\x00" + version
    for at in range(0, len(data), block):
        packed = bytes(cramjam.snappy.compress_raw(data[at : at + block]))
        out += struct.pack(">i", len(packed)) + packed
    return out


def _zstd_without_size(data: bytes) -> bytes:
    stream = cramjam.zstd.Compressor()
    stream.compress(data)
    return bytes(stream.finish())


def _halves(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda data: pack(data[: len(data) // 2]) + pack(data[len(data) // 2 :])


def _module(codec: object) -> Callable[[bytes], bytes]:
    return lambda data: bytes(codec.compress(data))


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (1, gzip.compress),
    "gzip members": (1, _halves(gzip.compress)),
    "snappy raw": (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "snappy xerial": (2, xerial),
    "snappy xerial twice": (2, _halves(xerial)),
    "snappy little-endian version": (2, lambda d: xerial(d, version=b"\1\0\0\0\1\0\0\0")),
    "lz4": (3, _module(cramjam.lz4)),
    "lz4 frames": (3, _halves(_module(cramjam.lz4))),
    "zstd": (4, _module(cramjam.zstd)),
    "zstd frames": (4, _halves(_module(cramjam.zstd))),
    "zstd without size": (4, _zstd_without_size),
}


def batch(
    *records: bytes,
    base: int = 0,
    codec: str = "none",
    attributes: int = 0,
    last_delta: int | None = None,
    count: int | None = None,
    base_time: int = T0,
    max_time: int = T0,
    epoch: int = 5,
    producer: int = -1,
    magic: int = 2,
    length: int | None = None,
    section: bytes | None = None,
) -> bytes:
    """Returns a batch with a true header, except for the fields that the caller sets."""
    number, pack = CODECS[codec]
    data = pack(b"".join(records)) if section is None else section
    count = len(records) if count is None else count
    last_delta = max(len(records) - 1, 0) if last_delta is None else last_delta
    rest = struct.pack(">hiqq", attributes | number, last_delta, base_time, max_time)
    rest += struct.pack(">qhii", producer, -1, -1, count) + data
    length = len(rest) + ATTRIBUTES_AT - PREFIX_BYTES if length is None else length
    return struct.pack(">qiibI", base, length, epoch, magic, crc32c.crc32c(rest)) + rest


def make_slice(data: bytes, start: int = 0, end: int = 2**62, tp: TopicPartition = TP) -> Slice:
    """Returns a slice with every offset, unless the caller limits it."""
    return Slice(tp=tp, start=start, end=end, data=memoryview(data))
