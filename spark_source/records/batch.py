"""The record batch's header (magic 2): its layout, the walk over a reply, the checks.

Everything that both decoders need before they look at a record: which batches are complete, sound
and wanted, and where their records lie, decompressed. It refuses message formats v0 and v1.
Layout: kafka.apache.org/documentation/#recordbatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

import crc32c
import numpy as np

from spark_source.model import NO_EPOCH, TopicPartition
from spark_source.records.codecs import CODECS, Room, Undecodable, address_of
from spark_source.records.faults import Fault, failure

__all__ = ["Extent", "Header", "Section", "Slice", "extent", "sections", "walk"]

_PREFIX_BYTES = 12  # base offset and length; the length counts what follows them
_HEADER = Struct(">qiibIhiqqqhii")
_CRC_FROM = 21  # the CRC covers attributes to the end; brokers write what lies before
_LENGTH_MIN = 14  # LegacyRecord.RECORD_OVERHEAD_V0: below it no message format is possible
_LENGTH_MIN_V2 = _HEADER.size - _PREFIX_BYTES
_MAGIC_V2 = 2

# DefaultRecordBatch's attribute bits; the delete horizon (bit 6) changes no record's time.
_CODEC = 0x07
_LOG_APPEND_TIME = 0x08
_CONTROL = 0x20

_OFFSET_MAX = 2**63 - 2  # its successor must fit too


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One partition's records of one fetch reply."""

    tp: TopicPartition
    start: int
    """First offset wanted; the reply's first batch may begin before it."""
    end: int
    """Exclusive; rows at or past it are dropped."""
    data: memoryview
    """Bytes of ``records`` in the reply: whole batches, maybe a partial one at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What a walk over the headers learns, before anything is decoded."""

    next_offset: int
    """One past the last offset of the last complete batch, or the given start."""
    leader_epoch: int
    """Partition leader epoch of the last complete batch, or -1."""
    size: int
    """Bytes of the complete batches."""
    batches: int
    """Number of complete batches; 0 with bytes means that the broker broke its word."""


class Header(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


class Section(NamedTuple):
    """The records of one batch, decompressed, and what is needed to read them."""

    tp: TopicPartition
    start: int
    end: int
    header: Header
    log_append_time: bool
    """Every record has the batch's max timestamp (message.timestamp.type=LogAppendTime)."""
    data: memoryview
    address: int
    """Of ``data``'s first byte, for the kernel."""


def walk(data: memoryview) -> Iterator[tuple[int, Header, Fault | None]]:
    """Each complete batch: its position, header, and what is wrong with the header.

    Ends before a partial batch, which is how a reply normally ends, and after a faulty header,
    whose length leads nowhere.
    """
    at, size = 0, len(data)
    while at + _PREFIX_BYTES <= size:
        if at + _HEADER.size <= size:
            header = Header._make(_HEADER.unpack_from(data, at))
        else:
            header = Header._make(_HEADER.unpack(bytes(data[at:]).ljust(_HEADER.size, b"\0")))
        after = at + _PREFIX_BYTES + header.length
        if after > size:
            return
        fault = _header_fault(header)
        yield at, header, fault
        if fault is not None:
            return
        at = after


def _header_fault(header: Header) -> Fault | None:
    if header.length < _LENGTH_MIN:
        return Fault.BATCH_LENGTH
    if header.magic != _MAGIC_V2:
        return Fault.OLD_FORMAT if header.magic in (0, 1) else Fault.MAGIC
    if header.length < _LENGTH_MIN_V2:
        return Fault.BATCH_LENGTH
    if header.base_offset < 0 or header.last_offset_delta < 0:
        return Fault.OFFSETS
    if header.base_offset > _OFFSET_MAX - header.last_offset_delta:
        return Fault.OFFSETS
    return Fault.COUNT if header.record_count < 0 else None


def extent(data: memoryview, start: int) -> Extent:
    """How far ``data`` reaches. A faulty batch ends it: ``decode`` is the one to complain."""
    next_offset, epoch, size, batches = start, NO_EPOCH, 0, 0
    for at, header, fault in walk(data):
        if fault is not None:
            break
        next_offset = header.base_offset + header.last_offset_delta + 1
        epoch = header.leader_epoch
        size = at + _PREFIX_BYTES + header.length
        batches += 1
    return Extent(next_offset=next_offset, leader_epoch=epoch, size=size, batches=batches)


def tail(data: memoryview, offset: int) -> memoryview:
    """The complete batches from the one that reaches ``offset`` on; empty if none does."""
    begin, end = len(data), 0
    for at, header, fault in walk(data):
        if fault is not None:
            break
        if header.base_offset + header.last_offset_delta >= offset:
            begin = min(begin, at)
        end = at + _PREFIX_BYTES + header.length
    return data[begin : max(begin, end)]


def sections(slices: Sequence[Slice], *, check_crcs: bool) -> list[Section]:
    """The records sections that may hold wanted rows, in order, checked and decompressed."""
    room: Room | None = None
    found: list[Section] = []
    for part in slices:
        address = address_of(np.frombuffer(part.data, np.uint8)) if len(part.data) else 0
        for at, after, header in _wanted(part, check_crcs=check_crcs):
            data, where = part.data[at:after], address + at
            # An empty batch keeps its codec bits when compaction retains it, but has no frame.
            if header.attributes & _CODEC and at < after:
                room = room or Room(sum(len(each.data) for each in slices))
                data, where = _decompressed(part.tp, header, data, room)
            late = bool(header.attributes & _LOG_APPEND_TIME)
            found.append(Section(part.tp, part.start, part.end, header, late, data, where))
    return found


def _wanted(part: Slice, *, check_crcs: bool) -> Iterator[tuple[int, int, Header]]:
    """Where the records begin and end, and the header, of batches with offsets in the range."""
    for at, header, fault in walk(part.data):
        if fault is not None:
            raise failure(fault, part.tp, header.base_offset)
        if header.base_offset >= part.end:
            return
        after = at + _PREFIX_BYTES + header.length
        if check_crcs and crc32c.crc32c(part.data[at + _CRC_FROM : after]) != header.crc:
            raise failure(Fault.CRC, part.tp, header.base_offset)
        below = header.base_offset + header.last_offset_delta < part.start
        if not below and not header.attributes & _CONTROL:
            yield at + _HEADER.size, after, header


def _decompressed(
    tp: TopicPartition, header: Header, data: memoryview, room: Room
) -> tuple[memoryview, int]:
    codec = header.attributes & _CODEC
    if codec not in CODECS:
        raise failure(Fault.CODEC, tp, header.base_offset, detail=f" ({codec})")
    try:
        return room.decompress(codec, data)
    except Undecodable as error:
        raise failure(Fault.COMPRESSION, tp, header.base_offset, detail=f" ({error})") from None
