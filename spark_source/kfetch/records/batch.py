"""The headers of record batches and messages: their layout, the walk over a reply, the checks.

Everything that ``extent`` and ``sections`` need before anybody looks at a record. Formats v0 and v1
have no batches: a message is a batch of one, a compressed one a batch whose offset is its last
record's. It refuses to open anything.
Layout: kafka.apache.org/documentation/#recordbatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from kfetch.model import NO_EPOCH, TopicPartition
from kfetch.records.faults import Fault
from kfetch.records.legacy import LENGTH_MIN

__all__ = ["Batch", "Extent", "Header", "Slice", "extent", "follows", "iter_batches", "sound"]

PREFIX_BYTES = 12  # base offset and length; the length counts what follows them
HEADER_BYTES = 61
_HEADER = Struct(">qiibIhiqqqhii")
_LEGACY = Struct(">qiIbbq")  # offset, length, CRC, magic, attributes, timestamp (v1 only)
_MAGIC_AT = 16
_CRC_FROM = 21  # v2's CRC covers attributes to the end; brokers write what lies before
_LEGACY_CRC_FROM = 16
_LENGTH_MIN = LENGTH_MIN[0]  # below it no message format is possible
_LENGTH_MIN_V2 = _HEADER.size - PREFIX_BYTES
_MAGIC_V2 = 2

# DefaultRecordBatch's attribute bits; the delete horizon (bit 6) changes no record's time.
CODEC = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

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
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset) of the transactions to leave out, as the reply lists them."""


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
    """What stands before the records. Of v0 and v1 only the first five fields and the time."""

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

    @property
    def last_offset(self) -> int:
        """Offset of the last record, also of one that compaction has removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """Which compression, 0 for none."""
        return self.attributes & CODEC


class Batch(NamedTuple):
    """A complete batch in a reply."""

    at: int
    """Position of its first byte."""
    after: int
    """Position behind its last byte, as its length says."""
    header: Header
    fault: Fault | None
    """What is wrong with the header; then ``after`` leads nowhere."""


def iter_batches(data: memoryview) -> Iterator[Batch]:
    """Each complete batch.

    Ends before a partial batch, which is how a reply normally ends, and after a faulty header,
    whose length leads nowhere.
    """
    at, size, before = 0, len(data), -1
    while at + PREFIX_BYTES <= size:
        header = _header(data, at)
        after = at + PREFIX_BYTES + header.length
        if after > size:
            return
        fault = _header_fault(header)
        if fault is None and header.base_offset <= before:
            fault = Fault.ORDER
        yield Batch(at, after, header, fault)
        if fault is not None:
            return
        at, before = after, header.base_offset + header.last_offset_delta


def _header(data: memoryview, at: int) -> Header:
    """The header at a position; what lies past the end of the data reads as zeros."""
    if at + HEADER_BYTES > len(data):
        data, at = memoryview(bytes(data[at:]).ljust(HEADER_BYTES, b"\0")), 0
    if data[at + _MAGIC_AT] > 1:
        return Header._make(_HEADER.unpack_from(data, at))
    offset, length, crc, magic, attributes, time = _LEGACY.unpack_from(data, at)
    time = time if magic else -1
    rest = (NO_EPOCH, magic, crc, attributes & 0xFF, 0, time, time, -1, -1, -1, 1)
    return Header(offset, length, *rest)


def _header_fault(header: Header) -> Fault | None:
    magic = header.magic
    if header.length < _LENGTH_MIN:
        return Fault.BATCH_LENGTH
    if not 0 <= magic <= _MAGIC_V2:
        return Fault.MAGIC
    if header.length < (_LENGTH_MIN_V2 if magic == _MAGIC_V2 else LENGTH_MIN[magic]):
        return Fault.BATCH_LENGTH
    if header.base_offset < 0 or header.last_offset_delta < 0:
        return Fault.OFFSETS
    if header.base_offset > _OFFSET_MAX - header.last_offset_delta:
        return Fault.OFFSETS
    return Fault.COUNT if header.record_count < 0 else None


def sound(data: memoryview, batch: Batch) -> bool:
    """Whether the CRC matches: CRC-32C in v2, CRC-32 before."""
    if batch.header.magic == _MAGIC_V2:
        # Seldom needed where the kernel checks, and 15 ms of an agent's start.
        import crc32c

        crc = crc32c.crc32c(data[batch.at + _CRC_FROM : batch.after])
    else:
        crc = zlib.crc32(data[batch.at + _LEGACY_CRC_FROM : batch.after])
    return bool(crc == batch.header.crc)


def follows(data: memoryview, batch: Batch, end: int) -> bool:
    """Whether a damaged batch can be passed: it is known for sure where the next offset lies.

    The next batch in the reply knows it. Without one the damaged header must do, if its count fits
    its offsets and does not lead out of the range.
    """
    following = next(iter_batches(data[batch.after :]), None)
    if following is not None:
        header = following.header
        return following.fault is None and batch.header.last_offset < header.base_offset
    header = batch.header
    return header.record_count == header.last_offset_delta + 1 and header.last_offset < end


def extent(data: memoryview, start: int, *, end: int | None = None) -> Extent:
    """How far ``data`` reaches. A faulty batch ends it: ``decode`` is the one to complain.

    With ``end``, the range's, damaged batches are to be passed: then a last one whose header can't
    be relied upon is left to the next fetch, where more may follow it. The first is never left.
    """
    found = [batch for batch in iter_batches(data) if batch.fault is None]
    if end is not None and len(found) > 1:
        last = found[-1]
        if not sound(data, last) and not follows(data, last, end):
            found.pop()
    if not found:
        return Extent(next_offset=start, leader_epoch=NO_EPOCH, size=0, batches=0)
    last = found[-1]
    return Extent(
        next_offset=last.header.last_offset + 1,
        leader_epoch=last.header.leader_epoch,
        size=last.after,
        batches=len(found),
    )


def batches_from(data: memoryview, offset: int) -> memoryview:
    """The complete batches from the one that reaches ``offset`` on; empty if none does."""
    found = [batch for batch in iter_batches(data) if batch.fault is None]
    wanted = [batch for batch in found if batch.header.last_offset >= offset]
    return data[wanted[0].at : found[-1].after] if wanted else data[:0]
