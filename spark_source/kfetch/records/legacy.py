"""Message formats v0 and v1 (before Kafka 0.11), rewritten as records of format v2.

Segments that old brokers wrote reach consumers as they are (KIP-724), so whoever reads a backlog
meets them. Both decoders know v2 only: here a message set becomes a section of v2 records, once,
in plain Python. It refuses nested compression and mixed formats within a set, as Java does.
Layout: LegacyRecord, AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kfetch.model import TopicPartition
from kfetch.records.faults import Fault, failure

__all__ = ["LENGTH_MIN", "Messages", "compressed", "mend_lz4", "messages"]

_HEAD = Struct(">qiIbb")  # offset, length, CRC, magic, attributes; v1 has a timestamp behind
_PREFIX_BYTES = 12
_CRC_FROM = 16
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_CODEC = 0x07
_DELTA_MAX = 2**31 - 1

LENGTH_MIN = {0: 14, 1: 22}
"""Bytes that a message's length counts at least, by its magic."""

NO_TIMESTAMP = -1


class Messages(NamedTuple):
    """A message set as v2 records, whose deltas count from ``base_offset`` and time 0."""

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


class _Set(NamedTuple):
    """A place in a reply, for errors, and how to read there."""

    tp: TopicPartition
    offset: int
    magic: int
    check_crcs: bool

    def fail(self, fault: Fault, number: int, detail: str = "") -> Exception:
        return failure(fault, self.tp, self.offset, number, detail)


def messages(
    data: memoryview, tp: TopicPartition, magic: int, *, wrapper: int | None, check_crcs: bool
) -> Messages:
    """The messages of a set as v2 records. Raises CorruptBatch.

    ``wrapper`` is the offset of the compressed message that held the set: in v1 its messages count
    from an offset that only their last one and the wrapper's tell. None for a bare message.
    """
    place = _Set(tp, wrapper if wrapper is not None else _offset_of(data), magic, check_crcs)
    found = list(_each(data, place))
    if not found:
        raise place.fail(Fault.MISSING, 0)
    if wrapper is not None and any(message.attributes & _CODEC for message in found):
        raise place.fail(Fault.WRAPPER, 0, ": a compressed message holds a compressed message")
    shift = _shift(found, place) if wrapper is not None else 0
    return _rewritten(found, shift, place)


def _offset_of(data: memoryview) -> int:
    return int(_TIMESTAMP.unpack_from(data)[0])


def _shift(found: list[_Message], place: _Set) -> int:
    """What turns an inner offset into the log's."""
    last = found[-1].offset
    if place.magic == 0 or place.offset == 0:  # absolute; old librdkafka's wrappers have offset 0
        return 0
    if place.offset < last:
        raise place.fail(Fault.WRAPPER, len(found) - 1, ": its offset is below the last one inside")
    return place.offset - last


def compressed(data: memoryview, tp: TopicPartition, magic: int) -> memoryview:
    """The value of a compressed message: a message set, packed. ``data`` is the whole message."""
    (message,) = _each(data, _Set(tp, _offset_of(data), magic, False))
    if message.value is None:
        raise failure(Fault.WRAPPER, tp, message.offset, detail=": a compressed message is null")
    return message.value


def _each(data: memoryview, place: _Set) -> Iterator[_Message]:
    at = number = 0
    while at < len(data):
        if len(data) - at < _PREFIX_BYTES + LENGTH_MIN[place.magic]:
            raise place.fail(Fault.ENDS_EARLY, number)
        end = at + _PREFIX_BYTES + _LENGTH.unpack_from(data, at + 8)[0]
        if not at + _PREFIX_BYTES + LENGTH_MIN[place.magic] <= end <= len(data):
            raise place.fail(Fault.RECORD_LENGTH, number)
        yield _message(data, at, end, number, place)
        at = end
        number += 1


def _message(data: memoryview, at: int, end: int, number: int, place: _Set) -> _Message:
    offset, _, crc, magic, attributes = _HEAD.unpack_from(data, at)
    if magic != place.magic:
        raise place.fail(Fault.MAGIC, number, f" inside a message set of format v{place.magic}")
    if place.check_crcs and zlib.crc32(data[at + _CRC_FROM : end]) != crc:
        raise place.fail(Fault.CRC, number)
    if offset < 0:
        raise place.fail(Fault.OFFSETS, number)
    at += _HEAD.size
    timestamp = NO_TIMESTAMP
    if magic:
        timestamp = _TIMESTAMP.unpack_from(data, at)[0]
        at += _TIMESTAMP.size
    key, at = _blob(data, at, end)
    if at < 0:
        raise place.fail(Fault.KEY_LENGTH, number)
    value, at = _blob(data, at, end)
    if at < 0:
        raise place.fail(Fault.VALUE_LENGTH, number)
    if at != end:
        raise place.fail(Fault.RECORD_SIZE, number)
    return _Message(offset, attributes, timestamp, key, value)


def _blob(data: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    """Bytes behind their length, None for -1, and the position after them; -1 if they don't fit."""
    start = at + _LENGTH.size
    if start > end:
        return None, -1
    (length,) = _LENGTH.unpack_from(data, at)
    if length < -1 or length > end - start:
        return None, -1
    return (None, start) if length < 0 else (data[start : start + length], start + length)


def _rewritten(found: list[_Message], shift: int, place: _Set) -> Messages:
    base, out = found[0].offset + shift, bytearray()
    before = base - 1
    for number, message in enumerate(found):
        offset = message.offset + shift
        if not before < offset <= base + _DELTA_MAX:
            raise place.fail(Fault.OFFSET_DELTA, number)
        before = offset
        body = b"\0" + _varint(message.timestamp) + _varint(offset - base)
        body += _sized(message.key) + _sized(message.value) + b"\0"
        out += _varint(len(body)) + body
    return Messages(memoryview(out), base, before - base, len(found))


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


def _sized(data: memoryview | None) -> bytes:
    return b"\x01" if data is None else _varint(len(data)) + data


def mend_lz4(frame: memoryview) -> bytes:
    """An LZ4 frame of format v0 with its header checksum put right.

    Kafka computed it over the frame's magic number too until 0.10 (KIP-57), which LZ4 libraries
    refuse. Too short a frame comes back as it is: the codec complains.
    """
    content_size = 8 if len(frame) > 4 and frame[4] & 0x08 else 0
    at = 6 + content_size  # magic number, flags, block descriptor, content size
    if len(frame) <= at:
        return bytes(frame)
    return bytes(frame[:at]) + bytes((_xxh32(bytes(frame[4:at])) >> 8 & 0xFF,)) + frame[at + 1 :]


_WORD = 2**32 - 1
_PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2246822519, 3266489917, 668265263, 374761393
_PRIME_1 = 2654435761


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes (github.com/Cyan4973/xxHash, doc/xxhash_spec.md)."""
    total = _PRIME_5 + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        total = total + int.from_bytes(data[at : at + 4], "little") * _PRIME_3 & _WORD
        total = _rotated(total, 17) * _PRIME_4 & _WORD
    for byte in data[whole:]:
        total = _rotated(total + byte * _PRIME_5 & _WORD, 11) * _PRIME_1 & _WORD
    total = (total ^ total >> 15) * _PRIME_2 & _WORD
    total = (total ^ total >> 13) * _PRIME_3 & _WORD
    return total ^ total >> 16


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
