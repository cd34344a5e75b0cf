"""The kernel's table: a row of numbers for the records of each batch (columns: ``interface``).

The compiled walk (``listing``) writes the row of a plain batch, without Python's cost. If a slice
holds any other batch, ``records.sections`` reads the whole slice.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.compiled import cpu, interface, native
from kfetch.model import TopicPartition
from kfetch.records.arrow import Array, empty_array
from kfetch.records.batch import Slice
from kfetch.records.codecs import address_of
from kfetch.records.format import CRC_FROM, HEADER_BYTES, RECORD_BYTES_MIN
from kfetch.records.memory import Part
from kfetch.records.sections import Section, SectionReader

LOOPS = native.load()
_FAST_CRCS = cpu.crc_lanes() > 0
_LARGE_BYTES = 1024  # the loops' tables take as long for them as Python takes for a call
_CRC_BYTES_BEFORE = HEADER_BYTES - CRC_FROM  # the CRC covers so many bytes before the records


class SectionTable(NamedTuple):
    """Where the records of each batch lie, and the numbers that are needed to read them."""

    rows: Array
    """int64, one row for each section."""
    slices: array[int]
    """One row for each slice: its topic and partition."""
    owners: tuple[object, ...]
    """The decompressed bytes and the topics' names, which must live as long as the table."""

    @property
    def sections(self) -> tuple[int, int]:
        """The address of the rows, and their number."""
        return address_of(self.rows), len(self.rows)

    @property
    def topic_bytes_max(self) -> int:
        """Bytes of the longest topic name."""
        return max(self.slices[interface.TOPIC_NAME_BYTES :: interface.SLICE_WIDTH], default=0)

    @property
    def slices_address(self) -> int:
        """The address of the table of slices."""
        return self.slices.buffer_info()[0]


def _table(rows: Array, tps: Sequence[TopicPartition], sections: Sequence[Section]) -> SectionTable:
    topics = {tp.topic: pa.py_buffer(tp.topic.encode()) for tp in tps}
    slices = array("q")
    for topic, partition in tps:
        slices.extend((topics[topic].address, topics[topic].size, partition))
    return SectionTable(rows, slices, (sections, topics))


def table_of_sections(sections: Sequence[Section]) -> SectionTable:
    """Returns a table with a row for each section. Each section is a slice of its own."""
    rows = _rows(sections, range(len(sections)))
    return _table(rows, [section.tp for section in sections], sections)


def _rows(sections: Sequence[Section], slice_numbers: Sequence[int]) -> Array:
    numbers = array("q")
    for slice_number, section in zip(slice_numbers, sections, strict=True):
        header = section.header
        numbers.extend((section.address, len(section.data), header.record_count))
        numbers.extend((header.base_offset, header.last_offset_delta))
        numbers.extend((header.base_timestamp, header.max_timestamp))
        numbers.extend((section.start, section.end, interface.CHECKED, slice_number))
        numbers.extend((section.timestamp_type, header.leader_epoch, 0))
    return np.frombuffer(numbers, np.int64).reshape(-1, interface.SECTION_WIDTH)


def table_of_slices(slices: Sequence[Slice], *, check_crcs: bool, part: Part) -> SectionTable:
    """Returns a table with a row for each batch that may hold rows in range, in order.

    It ends where the part is full. ``fill_rows`` checks the CRCs of plain batches later.
    Raises CorruptBatch.
    """
    size = sum(len(slice_.data) for slice_ in slices)
    reader, table = SectionReader(size, check_crcs, part), _GrowingTable(size, check_crcs)
    sections: list[Section] = []
    for number, slice_ in enumerate(slices):
        if table.add_slice(slice_, number, part.rows_max(slice_.tp.topic)):
            part.add(len(slice_.data), 0, slice_.tp.topic)
            continue
        more = list(reader.sections(slice_))
        table.add_rows(_rows(more, [number] * len(more)))
        sections += more
        if part.remaining:
            part.remaining += tuple(slices[number + 1 :])
            break
    return _table(table.rows, [slice_.tp for slice_ in slices], sections)


class _GrowingTable:
    """The rows of a table whose size is not known yet."""

    def __init__(self, size: int, check_crcs: bool) -> None:
        self._check_crcs = check_crcs
        self._row_count = 0
        self._table = _empty_table(size // 4096 + 64)
        self._cursor = array("q", bytes(8 * interface.CURSOR_WIDTH))

    @property
    def rows(self) -> Array:
        return self._table[: self._row_count]

    def add_slice(self, slice_: Slice, number: int, records_max: int) -> bool:
        """Adds a row for each batch of a slice.

        Returns False, and adds none, if ``records.sections`` must read the slice: for one, if it
        may have more than ``records_max`` records.
        """
        if slice_.aborted:
            return False
        if not slice_.data:
            return True
        data = pa.py_buffer(slice_.data)
        if self._list(slice_, number, data) != interface.LISTED_ALL:
            return False
        row_count = self._cursor[interface.ROWS_LISTED]
        if data.size > records_max * RECORD_BYTES_MIN:
            counts = self._table[self._row_count : row_count, interface.RECORD_COUNT]
            if counts.sum() > records_max:
                return False
        if self._check_crcs and not _FAST_CRCS:
            rows = self._table[self._row_count : row_count]
            if not _large_batches_match(rows, slice_.data, data.address):
                return False
        self._row_count = row_count
        return True

    def _list(self, slice_: Slice, number: int, data: pa.Buffer) -> int:
        """Writes rows behind those that count already. Returns the result of ``list_batches``."""
        cursor = self._cursor
        cursor[interface.NEXT_AT], cursor[interface.LAST_OFFSET] = 0, -1
        cursor[interface.ROWS_LISTED] = self._row_count
        range_ = data.address, data.size, slice_.start, slice_.end, number, self._check_crcs
        cursor_address = cursor.buffer_info()[0]
        while True:
            table = address_of(self._table), len(self._table)
            result = LOOPS.list_batches(*range_, cursor_address, *table)
            if result != interface.TABLE_FULL:
                return result
            self._grow(cursor[interface.ROWS_LISTED], 2 * len(self._table))

    def add_rows(self, rows: Array) -> None:
        """Adds the rows of sections."""
        row_count = self._row_count + len(rows)
        if row_count > len(self._table):
            self._grow(self._row_count, 2 * row_count)
        self._table[self._row_count : row_count] = rows
        self._row_count = row_count

    def _grow(self, row_count: int, capacity: int) -> None:
        larger = _empty_table(capacity)
        larger[:row_count] = self._table[:row_count]
        self._table = larger


def _large_batches_match(rows: Array, data: memoryview, address: int) -> bool:
    """Returns whether the CRCs of large batches match, where the loops have only tables for them.

    The package crc32c asks the CPU for its instructions at run time; code for all CPUs has none.
    ``fill_rows`` does not check these batches again.
    """
    # Imported here: it takes 15 ms of an agent's start, and most CPUs don't need it.
    import crc32c

    large = np.flatnonzero(rows[:, interface.SIZE] > _LARGE_BYTES)
    for at, size, expected in rows[large][
        :, [interface.ADDRESS, interface.SIZE, interface.CRC]
    ].tolist():
        start = at - address
        if expected != crc32c.crc32c(data[start - _CRC_BYTES_BEFORE : start + size]):
            return False
    rows[large, interface.CRC] = interface.CHECKED
    return True


def _empty_table(capacity: int) -> Array:
    width = interface.SECTION_WIDTH
    return empty_array(capacity * width, np.int64).reshape(-1, width)
