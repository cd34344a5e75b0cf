"""The kernel's table: one row of numbers for the records of each batch (columns: ``layout``).

Batches without anything special get their row from the compiled walk (``listing``), which costs
nothing of Python's; the slices of all others go through ``sections``. It refuses to judge a batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.compiled import cpu, layout, native
from kfetch.model import TopicPartition
from kfetch.records.arrow import room
from kfetch.records.batch import Slice
from kfetch.records.codecs import address_of
from kfetch.records.sections import Opener, Section

__all__ = ["Table", "of_sections", "of_slices"]

Array = np.ndarray[Any, Any]

LOOPS = native.load()
_CHECKS_CRCS = cpu.crc_lanes() > 0


class Table(NamedTuple):
    """Where records lie and what is needed to read them."""

    rows: Array
    """int64, one row a section."""
    names: array[int]
    """Topic and partition of each whose sections these are, as ``layout`` has it."""
    kept: tuple[object, ...]
    """Keep what was decompressed, and the topics' bytes, alive."""

    @property
    def sections(self) -> tuple[int, int]:
        """Where the rows lie, and how many they are."""
        return address_of(self.rows), len(self.rows)

    @property
    def slices(self) -> int:
        """Where the names lie."""
        return self.names.buffer_info()[0]


def _table(rows: Array, tps: Sequence[TopicPartition], kept: Sequence[Section]) -> Table:
    topics, names = {tp.topic: pa.py_buffer(tp.topic.encode()) for tp in tps}, array("q")
    for topic, partition in tps:
        names.extend((topics[topic].address, topics[topic].size, partition))
    return Table(rows, names, (kept, topics))


def of_sections(found: Sequence[Section]) -> Table:
    """A row for each section; its number is its SLICE too."""
    rows = _rows(found, range(len(found)))
    return _table(rows, [section.tp for section in found], found)


def _rows(found: Sequence[Section], slices: Sequence[int]) -> Array:
    numbers = array("q")
    for part, (_, start, end, header, late, kind, data, address) in zip(slices, found, strict=True):
        numbers.extend((address, len(data), header.record_count, header.base_offset))
        numbers.extend((header.last_offset_delta, header.base_timestamp, header.max_timestamp))
        numbers.extend((late, start, end, layout.CHECKED, part, kind, header.leader_epoch, 0))
    return np.frombuffer(numbers, np.int64).reshape(-1, layout.WIDTH)


def of_slices(slices: Sequence[Slice], *, check_crcs: bool) -> Table:
    """A row for each batch that may hold wanted rows, in order. Raises CorruptBatch.

    The CRCs of plain batches are left to ``fill_rows``.
    """
    size = sum(len(part.data) for part in slices)
    opener, listing = Opener(size, check_crcs), _Listing(size, check_crcs)
    kept: list[Section] = []
    for number, part in enumerate(slices):
        if not listing.walk(part, number):
            found = list(opener.sections(part))
            listing.extend(_rows(found, [number] * len(found)))
            kept += found
    return _table(listing.rows, [part.tp for part in slices], kept)


class _Listing:
    """A table that grows."""

    def __init__(self, size: int, check_crcs: bool) -> None:
        self._check = check_crcs
        self._taken = 0
        self._table = _empty(size // 4096 + 64)
        self._walk = array("q", bytes(8 * layout.WALK))

    @property
    def rows(self) -> Array:
        return self._table[: self._taken]

    def walk(self, part: Slice, number: int) -> bool:
        """Add a slice's batches; false, and nothing added, if they need a closer look."""
        if part.aborted or (self._check and not _CHECKS_CRCS):
            return False
        if not part.data:
            return True
        walk = self._walk
        walk[layout.AT], walk[layout.BEFORE], walk[layout.TAKEN] = 0, -1, self._taken
        data = pa.py_buffer(part.data)
        given = data.address, data.size, part.start, part.end, number, self._check
        where = walk.buffer_info()[0]
        while True:
            room = address_of(self._table), len(self._table)
            ended = LOOPS.list_batches(*given, where, *room)
            if ended != layout.FULL:
                break
            self._grow(walk[layout.TAKEN], 2 * len(self._table))
        if ended == layout.DONE:
            self._taken = walk[layout.TAKEN]
        return ended == layout.DONE

    def extend(self, rows: Array) -> None:
        """Add ready rows."""
        needed = self._taken + len(rows)
        if needed > len(self._table):
            self._grow(self._taken, 2 * needed)
        self._table[self._taken : needed] = rows
        self._taken = needed

    def _grow(self, taken: int, rows: int) -> None:
        larger = _empty(rows)
        larger[:taken] = self._table[:taken]
        self._table = larger


def _empty(rows: int) -> Array:
    return room(rows * layout.WIDTH, np.int64).reshape(-1, layout.WIDTH)
