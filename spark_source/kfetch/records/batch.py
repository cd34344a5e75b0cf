"""The headers of record batches and messages: reading, walking and checking them.

Nothing here reads or decompresses a record. Formats v0 and v1 have no batches: here a plain message
is a batch of one record. A compressed message is a batch whose offset is that of its last record.
Layout: kafka.apache.org/documentation/#recordbatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import NamedTuple

from kfetch.model import NO_EPOCH, TopicPartition
from kfetch.records.faults import Fault
from kfetch.records.format import (
    CODEC,
    CRC_FROM,
    HEADER_BYTES,
    LEGACY_CRC_FROM,
    LEGACY_LENGTH_MIN,
    MAGIC_AT,
    MAGIC_V2,
    NO_TIMESTAMP,
    OFFSET_MAX,
    PREFIX_BYTES,
)

_HEADER = Struct(">qiibIhiqqq6xi")  # without the producer's epoch and sequence
_LEGACY_HEADER = Struct(">qiIbbq")  # offset, length, CRC, magic, attributes, timestamp (v1 only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One partition's records of one fetch reply, and the offsets to read of them."""

    tp: TopicPartition
    start: int
    """First offset to read; the reply's first batch may begin before it."""
    end: int
    """Exclusive; the decoder drops rows at or past it."""
    data: memoryview
    """Bytes of ``records`` in the reply: complete batches, maybe a partial one at the end."""
    aborted: tuple[tuple[int, int], ...] = ()
    """(producer id, first offset) of aborted transactions, as the reply lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far the complete batches of a reply reach, from their headers alone."""

    next_offset: int
    """One past the last offset of the last complete batch, or the start without a batch."""
    leader_epoch: int
    """Partition leader epoch of the last complete batch, or -1."""
    size: int
    """Bytes of the complete batches."""
    batches: int
    """Number of complete batches. 0 with bytes means that the broker sent no complete batch."""


class Header(NamedTuple):
    """The fields before the records. v0 and v1 have only the first six and the times."""

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
    record_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record, even if compaction has removed the record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """The number of the compression codec, 0 for none."""
        return self.attributes & CODEC


class Batch(NamedTuple):
    """A complete batch in a reply."""

    at: int
    """Position of its first byte."""
    after: int
    """Position behind its last byte, as its length says."""
    header: Header
    fault: Fault | None
    """The fault of the header, if it has one; then ``after`` is meaningless."""


def iter_batches(data: memoryview, at: int = 0, last_offset: int = -1) -> Iterator[Batch]:
    """Yields each complete batch from a position on. ``last_offset``: that of the batch before it.

    It ends before a partial batch, which is the normal end of a reply. It also ends after a batch
    with a faulty header, whose length is meaningless.
    """
    size = len(data)
    while at + PREFIX_BYTES <= size:
        header = _header(data, at)
        after = at + PREFIX_BYTES + header.length
        if after > size:
            return
        fault = _header_fault(header)
        if fault is None and header.base_offset <= last_offset:
            fault = Fault.ORDER
        yield Batch(at, after, header, fault)
        if fault is not None:
            return
        at, last_offset = after, header.base_offset + header.last_offset_delta


def _header(data: memoryview, at: int) -> Header:
    """Returns the header at a position. Bytes past the end of the data count as zeros."""
    if at + HEADER_BYTES > len(data):
        data, at = memoryview(bytes(data[at:]).ljust(HEADER_BYTES, b"\0")), 0
    if data[at + MAGIC_AT] > 1:
        return Header._make(_HEADER.unpack_from(data, at))
    offset, length, crc, magic, attributes, time = _LEGACY_HEADER.unpack_from(data, at)
    time = time if magic else NO_TIMESTAMP
    other_fields = (NO_EPOCH, magic, crc, attributes & 0xFF, 0, time, time, -1, 1)
    return Header(offset, length, *other_fields)


def _header_fault(header: Header) -> Fault | None:
    magic = header.magic
    if header.length < LEGACY_LENGTH_MIN[0]:  # below it no format is possible
        return Fault.BATCH_LENGTH
    if not 0 <= magic <= MAGIC_V2:
        return Fault.MAGIC
    length_min = HEADER_BYTES - PREFIX_BYTES if magic == MAGIC_V2 else LEGACY_LENGTH_MIN[magic]
    if header.length < length_min:
        return Fault.BATCH_LENGTH
    if header.base_offset < 0 or header.last_offset_delta < 0:
        return Fault.OFFSETS
    if header.base_offset > OFFSET_MAX - header.last_offset_delta:
        return Fault.OFFSETS
    return Fault.COUNT if header.record_count < 0 else None


def crc_matches(data: memoryview, batch: Batch) -> bool:
    """Returns whether the CRC matches the bytes: CRC-32C in v2, CRC-32 in v0 and v1."""
    if batch.header.magic == MAGIC_V2:
        # Imported here: it takes 15 ms of an agent's start, and the kernel has its own CRC.
        import crc32c

        crc = crc32c.crc32c(data[batch.at + CRC_FROM : batch.after])
    else:
        crc = zlib.crc32(data[batch.at + LEGACY_CRC_FROM : batch.after])
    return bool(crc == batch.header.crc)


def next_offset_is_certain(data: memoryview, batch: Batch, end: int) -> bool:
    """Returns whether the next offset after a damaged batch is certain, so that it can be skipped.

    The next batch in the reply proves it. Without one the damaged header must do: its record count
    must fit its offsets, and its last offset must be below ``end``.
    """
    next_batch = next(iter_batches(data[batch.after :]), None)
    if next_batch is not None:
        header = next_batch.header
        return next_batch.fault is None and batch.header.last_offset < header.base_offset
    header = batch.header
    return header.record_count == header.last_offset_delta + 1 and header.last_offset < end


class Walk(NamedTuple):
    """The batches at the start of a reply that are complete and have no fault in their headers."""

    batches: int = 0
    """Their number."""
    previous_at: int = 0
    """Position of the last one but one."""
    last_at: int = 0
    """Position of the last one."""
    after: int = 0
    """Position behind the last one."""
    last_offset: int = -1
    """Last offset of the last one."""
    first_at: int = -1
    """Position of the first one that ends at or after the offset of the walk; -1 without any."""


Walker = Callable[[memoryview, int], Walk]
"""Walks over the batch headers of a reply. The number is the offset of ``Walk.first_at``."""

NO_BATCHES = Walk()


def walk(
    data: memoryview, offset: int, done: Walk = NO_BATCHES, *, limit: int | None = None
) -> Walk:
    """Returns ``done`` after more batches: all that follow it, or ``limit`` of them."""
    batches, previous_at, last_at, after, last_offset, first_at = done
    for batch in islice(iter_batches(data, after, last_offset), limit):
        if batch.fault is not None:
            break
        batches += 1
        previous_at, last_at, after = last_at, batch.at, batch.after
        last_offset = batch.header.base_offset + batch.header.last_offset_delta
        if first_at < 0 and last_offset >= offset:
            first_at = last_at
    return Walk(batches, previous_at, last_at, after, last_offset, first_at)


def extent(
    data: memoryview, start: int, *, end: int | None = None, walker: Walker = walk
) -> Extent:
    """Returns how far ``data`` reaches. A faulty header ends it without an error.

    ``start``: the next offset if there is no complete batch.
    ``end``: the range's end, if the decoder is to skip damaged batches. Then a damaged last batch
    whose next offset is not certain waits for the next fetch, where another batch may follow it.
    The first batch never waits.
    """
    walked = walker(data, start)
    batches, at, after = walked.batches, walked.last_at, walked.after
    if end is not None and batches > 1:
        last = Batch(at, after, _header(data, at), None)
        if not crc_matches(data, last) and not next_offset_is_certain(data, last, end):
            batches, at, after = batches - 1, walked.previous_at, at
    if not batches:
        return Extent(next_offset=start, leader_epoch=NO_EPOCH, size=0, batches=0)
    header = _header(data, at)
    return Extent(
        next_offset=header.last_offset + 1,
        leader_epoch=header.leader_epoch,
        size=after,
        batches=batches,
    )


def first_of_later_epoch(data: memoryview, epoch: int, end: int) -> int | None:
    """Returns the base offset of the first batch before ``end`` that a later leader wrote."""
    for batch in iter_batches(data):
        if batch.fault is not None or batch.header.base_offset >= end:
            return None
        if batch.header.leader_epoch > epoch:
            return batch.header.base_offset
    return None


def batches_from(data: memoryview, offset: int, *, walker: Walker = walk) -> memoryview:
    """Returns the complete batches that end at or after ``offset``; empty without any."""
    walked = walker(data, offset)
    return data[walked.first_at : walked.after] if walked.first_at >= 0 else data[:0]
