"""From a reply's batches to the sections of records that both decoders read.

Which batches are sound and wanted, and where their records lie, decompressed and in format v2. A
damaged batch is an error, or, if the caller takes the error and the place behind it is known for
sure, left out. It refuses to look at records, save for transaction markers and old formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kfetch.errors import CorruptBatch
from kfetch.model import TopicPartition
from kfetch.records import legacy
from kfetch.records.batch import (
    CODEC,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Batch,
    Header,
    Slice,
    follows,
    iter_batches,
    sound,
)
from kfetch.records.codecs import CODECS, CODECS_LEGACY, LZ4, Room, Undecodable, address_of
from kfetch.records.faults import Fault, failure
from kfetch.records.transactions import AbortedTransactions, is_abort_marker

__all__ = ["OnCorrupt", "Opener", "Section", "sections"]

OnCorrupt = Callable[[CorruptBatch], None]
"""Is told of every batch that is left out because it is damaged."""

CREATE_TIME, LOG_APPEND, NO_TIME = 0, 1, -1  # Java's TimestampType


class Section(NamedTuple):
    """The records of one batch, decompressed, and what is needed to read them."""

    tp: TopicPartition
    start: int
    end: int
    header: Header
    late: bool
    """Every record has the batch's max timestamp (message.timestamp.type=LogAppendTime)."""
    time_type: int
    """0 CreateTime, 1 LogAppendTime, -1 none."""
    data: memoryview
    address: int
    """Of ``data``'s first byte, for the kernel."""


def sections(
    slices: Sequence[Slice], *, check_crcs: bool, on_corrupt: OnCorrupt | None = None
) -> list[Section]:
    """The records sections that may hold wanted rows, in order, checked and decompressed.

    With ``on_corrupt`` CRCs are checked in any case: without them nobody knows what is damaged.
    """
    check_crcs = check_crcs or on_corrupt is not None
    opener = Opener(sum(len(part.data) for part in slices), check_crcs)
    return [section for part in slices for section in opener.sections(part, on_corrupt)]


def _passable(part: Slice, batch: Batch, aborted: AbortedTransactions | None) -> bool:
    """Whether a damaged batch can be left out without losing, or inventing, what lies behind it.

    An abort marker can't: without it the producer's next transaction would seem aborted too.
    """
    if sound(part.data, batch):  # then the header is as it was written
        return not (aborted and batch.header.attributes & CONTROL)
    return not aborted and follows(part.data, batch, part.end)


def _in_range(part: Slice) -> Iterator[Batch]:
    """The batches up to the end of the range. Raises for a faulty header."""
    for batch in iter_batches(part.data):
        header = batch.header
        if batch.fault is not None:
            raise failure(batch.fault, part.tp, header.base_offset)
        # A compressed message of an old format tells its last offset only.
        if header.base_offset >= part.end and (header.magic > 1 or not header.codec):
            return
        yield batch
        if header.base_offset + header.last_offset_delta >= part.end - 1:
            return


class Opener:
    """Opens the batches of one decode call; all decompressed bytes share its memory."""

    def __init__(self, size: int, check_crcs: bool) -> None:
        self._size = size
        self._check_crcs = check_crcs
        self._room: Room | None = None

    def sections(self, part: Slice, on_corrupt: OnCorrupt | None = None) -> Iterator[Section]:
        """A slice's sections that may hold wanted rows, in order."""
        aborted = AbortedTransactions(part.aborted) if part.aborted else None
        address = address_of(np.frombuffer(part.data, np.uint8)) if len(part.data) else 0
        for batch in _in_range(part):
            try:
                section = self._open(part, address, batch, aborted)
            except CorruptBatch as error:
                if on_corrupt is None or not _passable(part, batch, aborted):
                    raise
                on_corrupt(error)
            else:
                if section is not None:
                    yield section

    def _open(
        self, part: Slice, address: int, batch: Batch, aborted: AbortedTransactions | None
    ) -> Section | None:
        """A batch's records; None if none of them is wanted. Raises CorruptBatch."""
        header = batch.header
        if self._check_crcs and not sound(part.data, batch):
            raise failure(Fault.CRC, part.tp, header.base_offset)
        if aborted and self._aborted(part, batch, aborted):
            return None
        if header.attributes & CONTROL and header.magic > 1:
            return None
        if header.base_offset + header.last_offset_delta < part.start:
            return None
        if header.magic < 2:
            return self._open_legacy(part, batch)
        data, where = self._records(part.tp, batch, part.data, address)
        late = bool(header.attributes & LOG_APPEND_TIME)
        return Section(part.tp, part.start, part.end, header, late, int(late), data, where)

    def _aborted(self, part: Slice, batch: Batch, aborted: AbortedTransactions) -> bool:
        """Whether the batch belongs to an aborted transaction; a marker ends one."""
        header = batch.header
        if header.producer_id < 0 or not aborted.holds(header.producer_id, header.last_offset):
            return False
        if header.attributes & CONTROL:
            data, _ = self._records(part.tp, batch, part.data, 0)
            if len(data) and is_abort_marker(data, part.tp, header.base_offset):
                aborted.end(header.producer_id)
        return bool(header.attributes & TRANSACTIONAL)

    def _records(
        self, tp: TopicPartition, batch: Batch, data: memoryview, address: int
    ) -> tuple[memoryview, int]:
        at = batch.at + HEADER_BYTES
        packed = data[at : batch.after]
        # An empty batch keeps its codec bits when compaction retains it, but has no frame.
        if not batch.header.attributes & CODEC or not packed:
            return packed, address + at
        return self._unpacked(tp, batch.header, packed)

    def _open_legacy(self, part: Slice, batch: Batch) -> Section:
        header, tp = batch.header, part.tp
        data = part.data[batch.at : batch.after]
        late = bool(header.attributes & LOG_APPEND_TIME) and header.magic == 1
        wrapper = header.base_offset if header.codec else None
        if wrapper is not None:
            packed = legacy.compressed(data, tp, header.magic)
            data, _ = self._unpacked(tp, header, packed)
        check = self._check_crcs and wrapper is not None
        found = legacy.messages(data, tp, header.magic, wrapper=wrapper, check_crcs=check)
        rewritten = header._replace(
            base_offset=found.base_offset,
            last_offset_delta=found.last_offset_delta,
            record_count=found.record_count,
            base_timestamp=0,
        )
        where = address_of(np.frombuffer(found.data, np.uint8))
        time_type = int(late) if header.magic else NO_TIME
        return Section(tp, part.start, part.end, rewritten, late, time_type, found.data, where)

    def _unpacked(
        self, tp: TopicPartition, header: Header, packed: memoryview
    ) -> tuple[memoryview, int]:
        codec = header.codec
        known = CODECS if header.magic > 1 else CODECS_LEGACY
        if codec not in known:
            raise failure(Fault.CODEC, tp, header.base_offset, detail=f" ({codec})")
        if codec == LZ4 and header.magic == 0:
            packed = memoryview(legacy.mend_lz4(packed))
        self._room = self._room or Room(self._size)
        try:
            return self._room.decompress(codec, packed)
        except Undecodable as error:
            raise failure(Fault.COMPRESSION, tp, header.base_offset, detail=f" ({error})") from None
