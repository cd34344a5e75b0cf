"""Message formats v0 and v1 (before Kafka 0.11), rewritten as records of format v2.

Brokers send segments of these formats as they are (KIP-724), so a reader of a backlog meets them.
Both decoders read v2 only. This module rewrites a message set as a section of v2 records, once, in
plain Python. Like Java, it raises CorruptBatch for nested compression and for mixed formats in a
set. Layout: LegacyRecord, AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kfetch.model import TopicPartition
from kfetch.records.faults import Fault, failure
from kfetch.records.format import (
    CODEC,
    LEGACY_CRC_FROM,
    LEGACY_LENGTH_MIN,
    LENGTH_AT,
    NO_TIMESTAMP,
    PREFIX_BYTES,
)

_HEADER = Struct(">qiIbb")  # offset, length, CRC, magic, attributes; in v1 a timestamp follows
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_DELTA_MAX = 2**31 - 1


class V2Records(NamedTuple):
    """A message set as v2 records. Their deltas count from ``base_offset`` and time 0."""

    data: memoryview
    base_offset: int
    last_offset_delta: int
    record_count: int


class _Message(NamedTuple):
    offset: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


class _MessageSet(NamedTuple):
    """A message set: its partition and offset, for errors, and how to read it."""

    tp: TopicPartition
    offset: int
    magic: int
    check_crcs: bool

    def fail(self, fault: Fault, number: int, detail: str = "") -> Exception:
        return failure(fault, self.tp, self.offset, number, detail)


def to_v2(
    data: memoryview, tp: TopicPartition, magic: int, *, wrapper: int | None, check_crcs: bool
) -> V2Records:
    """Returns the messages of a set as v2 records. Raises CorruptBatch.

    ``wrapper``: the offset of the compressed message around the set, None for a plain message. In
    v1 the offsets inside are relative. The wrapper has the offset of the last one.
    """
    offset = _offset_of(data) if wrapper is None else wrapper
    message_set = _MessageSet(tp, offset, magic, check_crcs)
    first = last = number = -1
    out = bytearray()
    # One message at a time: as Python's objects, all together would take ten times their bytes.
    for number, message in enumerate(_messages(data, message_set)):
        if wrapper is not None and message.attributes & CODEC:
            detail = ": a compressed message holds a compressed message"
            raise message_set.fail(Fault.WRAPPER, number, detail)
        if not number:
            first = message.offset
        elif not last < message.offset <= first + _DELTA_MAX:
            raise message_set.fail(Fault.OFFSET_DELTA, number)
        last = message.offset
        _append(out, message, last - first)
    if not out:
        raise message_set.fail(Fault.MISSING, 0)
    shift = 0 if wrapper is None else _offset_shift(last, number, message_set)
    return V2Records(memoryview(out), first + shift, last - first, number + 1)


def _offset_of(data: memoryview) -> int:
    return int(_TIMESTAMP.unpack_from(data)[0])


def _offset_shift(last: int, number: int, message_set: _MessageSet) -> int:
    """Returns the number to add to an inner offset to get the log's offset.

    ``last``: the inner offset of the last message, which has this number.
    """
    # Inner offsets of v0 are absolute. So are those of old librdkafka, whose wrapper has offset 0.
    if message_set.magic == 0 or message_set.offset == 0:
        return 0
    if message_set.offset < last:
        detail = ": its offset is below the last one inside"
        raise message_set.fail(Fault.WRAPPER, number, detail)
    return message_set.offset - last


def compressed_value(data: memoryview, tp: TopicPartition, magic: int) -> memoryview:
    """Returns the value of a compressed message: a compressed message set. Raises CorruptBatch.

    ``data``: the whole message.
    """
    (message,) = _messages(data, _MessageSet(tp, _offset_of(data), magic, False))
    if message.value is None:
        raise failure(Fault.WRAPPER, tp, message.offset, detail=": a compressed message is null")
    return message.value


def _messages(data: memoryview, message_set: _MessageSet) -> Iterator[_Message]:
    at = number = 0
    while at < len(data):
        if len(data) - at < PREFIX_BYTES + LEGACY_LENGTH_MIN[message_set.magic]:
            raise message_set.fail(Fault.ENDS_EARLY, number)
        end = at + PREFIX_BYTES + _LENGTH.unpack_from(data, at + LENGTH_AT)[0]
        if not at + PREFIX_BYTES + LEGACY_LENGTH_MIN[message_set.magic] <= end <= len(data):
            raise message_set.fail(Fault.RECORD_LENGTH, number)
        yield _message(data, at, end, number, message_set)
        at = end
        number += 1


def _message(
    data: memoryview, at: int, end: int, number: int, message_set: _MessageSet
) -> _Message:
    offset, _, crc, magic, attributes = _HEADER.unpack_from(data, at)
    if magic != message_set.magic:
        raise message_set.fail(
            Fault.MAGIC, number, f" inside a message set of format v{message_set.magic}"
        )
    if message_set.check_crcs and zlib.crc32(data[at + LEGACY_CRC_FROM : end]) != crc:
        raise message_set.fail(Fault.CRC, number)
    if offset < 0:
        raise message_set.fail(Fault.OFFSETS, number)
    at += _HEADER.size
    timestamp = NO_TIMESTAMP
    if magic:
        timestamp = _TIMESTAMP.unpack_from(data, at)[0]
        at += _TIMESTAMP.size
    key, at = _sized_bytes(data, at, end)
    if at < 0:
        raise message_set.fail(Fault.KEY_LENGTH, number)
    value, at = _sized_bytes(data, at, end)
    if at < 0:
        raise message_set.fail(Fault.VALUE_LENGTH, number)
    if at != end:
        raise message_set.fail(Fault.RECORD_SIZE, number)
    return _Message(offset, attributes, timestamp, key, value)


def _sized_bytes(data: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    """Returns bytes behind their length (None for -1) and the position after them.

    The position is -1 if they don't fit.
    """
    start = at + _LENGTH.size
    if start > end:
        return None, -1
    (length,) = _LENGTH.unpack_from(data, at)
    if length < -1 or length > end - start:
        return None, -1
    return (None, start) if length < 0 else (data[start : start + length], start + length)


def _append(out: bytearray, message: _Message, offset_delta: int) -> None:
    """Appends a message as a v2 record, which is never longer."""
    fields = (
        *(b"\0", _varint(message.timestamp), _varint(offset_delta)),
        *(*_blob(message.key), *_blob(message.value), b"\0"),
    )
    out += _varint(sum(map(len, fields)))
    for field in fields:
        out += field


def _varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    if raw < 0x80:
        return bytes((raw,))
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _blob(data: memoryview | None) -> tuple[bytes, memoryview | bytes]:
    """Returns the length of a key or a value, and its bytes. They may be large, so none copies."""
    return (b"\x01", b"") if data is None else (_varint(len(data)), data)


_LZ4_WRONG_HEADER = bytes.fromhex("04224d18 60 40 1a")
_LZ4_RIGHT_HEADER = bytes.fromhex("04224d18 60 40 82")


def repaired_lz4_frame(frame: memoryview) -> memoryview:
    """Returns an LZ4 frame of format v0 with the right header checksum.

    Until 0.10, Kafka computed the checksum over the frame's magic number too (KIP-57), and LZ4
    libraries refuse such a frame. Kafka's frames all had the same header, so one is wrong. The
    codec refuses every other wrong header.
    """
    if frame[: len(_LZ4_WRONG_HEADER)] != _LZ4_WRONG_HEADER:
        return frame
    return memoryview(_LZ4_RIGHT_HEADER + frame[len(_LZ4_WRONG_HEADER) :])
