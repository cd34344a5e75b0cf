"""From the batches of a reply to the sections of records that both decoders read.

It selects the batches in range, checks them, decompresses their records and rewrites old formats as
v2. A damaged batch is an error. With ``on_corrupt`` the caller gets the error instead and the batch
is skipped, if the next offset is certain. Of records, this module reads only transaction markers
and old formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kfetch.errors import CorruptBatch
from kfetch.model import TopicPartition
from kfetch.records import legacy
from kfetch.records.batch import (
    Batch,
    Header,
    Slice,
    crc_matches,
    iter_batches,
    next_offset_is_certain,
)
from kfetch.records.codecs import (
    CODECS,
    CODECS_LEGACY,
    LZ4,
    DecompressionBuffer,
    DecompressionFailed,
    address_of,
)
from kfetch.records.faults import Fault, failure
from kfetch.records.format import (
    CODEC,
    CONTROL,
    CREATE,
    HEADER_BYTES,
    LOG_APPEND,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    RECORD_BYTES_MIN,
    TRANSACTIONAL,
)
from kfetch.records.memory import Part, PartIsFull
from kfetch.records.transactions import AbortedTransactions, is_abort_marker

OnCorrupt = Callable[[CorruptBatch], None]
"""Receives the error of every skipped batch."""


class Section(NamedTuple):
    """The records of one batch, decompressed, and the numbers that are needed to read them."""

    tp: TopicPartition
    start: int
    end: int
    header: Header
    timestamp_type: int
    """LOG_APPEND: every record has the batch's max timestamp. Else CREATE or NO_TIMESTAMP_TYPE."""
    data: memoryview
    address: int
    """Of ``data``'s first byte, for the kernel."""


def sections(
    slices: Sequence[Slice],
    *,
    check_crcs: bool,
    on_corrupt: OnCorrupt | None = None,
    part: Part | None = None,
) -> list[Section]:
    """Returns the sections that may hold rows in range, in order, checked and decompressed.

    With ``on_corrupt`` the CRCs are always checked: only they show which batch is damaged.
    With ``part`` it returns the sections of one part of the slices, and ``part.remaining`` is set.
    Raises CorruptBatch for a damaged batch that is not skipped.
    """
    check_crcs, part = check_crcs or on_corrupt is not None, part or Part()
    reader = SectionReader(sum(len(slice_.data) for slice_ in slices), check_crcs, part)
    in_range: list[Section] = []
    for number, slice_ in enumerate(slices, 1):
        in_range += reader.sections(slice_, on_corrupt)
        if part.remaining:
            part.remaining += tuple(slices[number:])
            break
    return in_range


def _can_skip(slice_: Slice, batch: Batch, aborted: AbortedTransactions | None) -> bool:
    """Returns whether the rows after a damaged batch stay right without it.

    They do not without an abort marker: the producer's next transaction would seem aborted too.
    """
    if crc_matches(slice_.data, batch):  # then the header is as the producer wrote it
        return not (aborted and batch.header.attributes & CONTROL)
    return not aborted and next_offset_is_certain(slice_.data, batch, slice_.end)


def _batches_in_range(slice_: Slice) -> Iterator[Batch]:
    """Yields the batches up to the end of the range. Raises CorruptBatch for a faulty header."""
    for batch in iter_batches(slice_.data):
        header = batch.header
        if batch.fault is not None:
            raise failure(batch.fault, slice_.tp, header.base_offset)
        # A compressed message of an old format has only its last offset.
        if header.base_offset >= slice_.end and (header.magic > 1 or not header.codec):
            return
        yield batch
        if header.base_offset + header.last_offset_delta >= slice_.end - 1:
            return


def _remainder(
    slice_: Slice, next_offset: int, at: int, aborted: AbortedTransactions | None
) -> Slice:
    """Returns the slice from the batch at position ``at`` on."""
    listed = aborted.remaining() if aborted else ()
    return replace(slice_, start=next_offset, data=slice_.data[at:], aborted=listed)


class SectionReader:
    """Opens the batches of one decode call. All decompressed bytes share its memory."""

    def __init__(self, compressed_bytes: int, check_crcs: bool, part: Part) -> None:
        self._compressed_bytes = compressed_bytes
        self._check_crcs = check_crcs
        self._part = part
        self._buffer: DecompressionBuffer | None = None
        self._rows_max = 0
        """How many rows a call may have of the present slice."""

    def sections(self, slice_: Slice, on_corrupt: OnCorrupt | None = None) -> Iterator[Section]:
        """Yields a slice's sections that may hold rows in range, in order.

        If the part is full, it ends before a batch that is compressed or becomes structs, behind
        very many batches, or within one of very many records. Then it sets ``part.remaining``.
        """
        aborted = AbortedTransactions(slice_.aborted) if slice_.aborted else None
        address = address_of(np.frombuffer(slice_.data, np.uint8)) if len(slice_.data) else 0
        next_offset, self._rows_max = slice_.start, self._part.rows_max(slice_.tp.topic)
        for batch in _batches_in_range(slice_):
            try:
                section = self._open(slice_, address, batch, aborted)
            except PartIsFull:
                self._part.remaining = (_remainder(slice_, next_offset, batch.at, aborted),)
                return
            except CorruptBatch as error:
                if on_corrupt is None or not _can_skip(slice_, batch, aborted):
                    raise
                on_corrupt(error)
            else:
                if section is not None:
                    self._part.add(len(section.data), section.header.record_count, section.tp.topic)
                    yield section
                    if section.end < slice_.end and section.end <= batch.header.last_offset:
                        rest = _remainder(slice_, section.end, batch.at, aborted)
                        self._part.remaining = (rest,)
                        return
            next_offset = max(next_offset, batch.header.last_offset + 1)

    def _open(
        self, slice_: Slice, address: int, batch: Batch, aborted: AbortedTransactions | None
    ) -> Section | None:
        """Returns a batch's section; None if none of its rows is in range. Raises CorruptBatch."""
        header = batch.header
        if self._check_crcs and not crc_matches(slice_.data, batch):
            raise failure(Fault.CRC, slice_.tp, header.base_offset)
        if aborted and self._is_aborted(slice_, batch, aborted):
            return None
        if header.attributes & CONTROL and header.magic > 1:
            return None
        if header.base_offset + header.last_offset_delta < slice_.start:
            return None
        if self._part.is_full_of_sections:
            raise PartIsFull
        if header.magic < 2:
            return self._open_legacy(slice_, batch)
        tp, end = slice_.tp, slice_.end
        is_large = header.record_count > self._rows_max - self._part.rows
        if self._part.is_full_with_structs(header.record_count) or (is_large and self._part.rows):
            raise PartIsFull
        data, at = self._records(tp, batch, slice_.data, address)
        time_type = LOG_APPEND if header.attributes & LOG_APPEND_TIME else CREATE
        if is_large and len(data) > RECORD_BYTES_MIN * self._rows_max:
            # An offset has one record at most.
            end = min(end, max(slice_.start, header.base_offset) + self._rows_max)
        return Section(tp, slice_.start, end, header, time_type, data, at)

    def _is_aborted(self, slice_: Slice, batch: Batch, aborted: AbortedTransactions) -> bool:
        """Returns whether the batch belongs to an aborted transaction. A marker ends one."""
        header = batch.header
        if header.producer_id < 0:
            return False
        if not aborted.has_aborted(header.producer_id, header.last_offset):
            return False
        if header.attributes & CONTROL:
            data, _ = self._records(slice_.tp, batch, slice_.data, 0)
            if len(data) and is_abort_marker(data, slice_.tp, header.base_offset):
                aborted.end(header.producer_id)
        return bool(header.attributes & TRANSACTIONAL)

    def _records(
        self, tp: TopicPartition, batch: Batch, data: memoryview, address: int
    ) -> tuple[memoryview, int]:
        """Returns the batch's records, decompressed, and their address."""
        at = batch.at + HEADER_BYTES
        packed = data[at : batch.after]
        # An empty batch keeps its codec bits when compaction retains it, but has no frame.
        if not batch.header.attributes & CODEC or not packed:
            return packed, address + at
        return self._decompressed(tp, batch.header, packed)

    def _open_legacy(self, slice_: Slice, batch: Batch) -> Section:
        header, tp = batch.header, slice_.tp
        data = slice_.data[batch.at : batch.after]
        wrapper = header.base_offset if header.codec else None
        if wrapper is not None:
            packed = legacy.compressed_value(data, tp, header.magic)
            data, _ = self._decompressed(tp, header, packed)
            self._part.reserve(len(data))  # for the rewritten records
        check_crcs = self._check_crcs and wrapper is not None
        records = legacy.to_v2(data, tp, header.magic, wrapper=wrapper, check_crcs=check_crcs)
        v2_header = header._replace(
            base_offset=records.base_offset,
            last_offset_delta=records.last_offset_delta,
            record_count=records.record_count,
            base_timestamp=0,
        )
        time_type = LOG_APPEND if header.attributes & LOG_APPEND_TIME else CREATE
        time_type = time_type if header.magic else NO_TIMESTAMP_TYPE
        at = address_of(np.frombuffer(records.data, np.uint8))
        return Section(tp, slice_.start, slice_.end, v2_header, time_type, records.data, at)

    def _decompressed(
        self, tp: TopicPartition, header: Header, packed: memoryview
    ) -> tuple[memoryview, int]:
        """Returns the decompressed bytes and their address. Raises CorruptBatch, PartIsFull."""
        codec = header.codec
        if codec not in (CODECS if header.magic > 1 else CODECS_LEGACY):
            raise failure(Fault.CODEC, tp, header.base_offset, detail=f" ({codec})")
        if codec == LZ4 and header.magic == 0:
            packed = legacy.repaired_lz4_frame(packed)
        self._buffer = self._buffer or DecompressionBuffer(self._compressed_bytes, self._part)
        try:
            return self._buffer.decompress(codec, packed)
        except DecompressionFailed as error:
            raise failure(Fault.COMPRESSION, tp, header.base_offset, detail=f" ({error})") from None
