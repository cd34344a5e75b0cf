"""How much memory one decode call may take, and who counts it.

A compressed reply may unpack to many times its size. So a decode call reads only a part of its
slices, and the caller decodes the rest in another call.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

from kfetch.records.arrow import STANDARD_COLUMNS, Columns, row_bytes
from kfetch.records.batch import Slice

ROWS_BYTES_MAX = 256 << 20
"""Bytes of the rows of one call, beside their text. A record batch of more needs several calls.

A batch of 128 MiB may hold 19 million records of 7 bytes. With a long topic, a row has 300 bytes,
and structs come on top. All of them would not fit into an Arrow batch. A lower limit would unpack
such a batch more often."""

SECTION_BYTES = 1 << 10
"""What Python's objects of a section take: 700 to 900 bytes, measured, and its row of the table."""
_SECTIONS_PER_RESERVATION = 64
"""Each reservation takes the agent's lock."""


class Memory:
    """The memory of decode calls, which nobody counts. The agent counts it against its budget."""

    def __init__(self, part_bytes: int | None = None) -> None:
        self._part_bytes = part_bytes

    @property
    def part_bytes(self) -> int | None:
        """Bytes that the rows of one call may take, None for no limit.

        A call unpacks at least one record batch of the broker, whatever its size. Without a limit,
        one call decodes everything.
        """
        return self._part_bytes

    def reserve(self, size: int) -> None:
        """Called before a decoder uses ``size`` more bytes. May wait for them."""

    def release(self, size: int) -> None:
        """Called when a decoder has freed ``size`` bytes before the call's end, which frees all."""

    def idle(self) -> AbstractContextManager[None]:
        """A context in which a decoder waits for another service. Other decoders run meanwhile."""
        return nullcontext()


UNLIMITED = Memory()


class PartIsFull(Exception):
    """The next record batch, or the next value, belongs to the next part."""


class Part(Memory):
    """The part of its slices that one decode call reads, in another ``memory``."""

    def __init__(self, memory: Memory = UNLIMITED, columns: Columns = STANDARD_COLUMNS) -> None:
        super().__init__(memory.part_bytes)
        self.remaining: tuple[Slice, ...] = ()
        """The slices that the next call is to decode."""
        self._memory = memory
        self._columns = columns
        self._reserved = 0
        self._bytes = 0
        self._sections = 0
        self.rows = 0
        """The rows so far, without those of plain batches."""

    def reserve(self, size: int) -> None:
        """See Memory."""
        self._memory.reserve(size)
        self._reserved += size

    def release(self, size: int) -> None:
        """See Memory."""
        self._memory.release(size)
        self._reserved -= size

    def idle(self) -> AbstractContextManager[None]:
        """See Memory."""
        return self._memory.idle()

    def abandon(self) -> None:
        """Release all memory: another attempt will decode this part."""
        self.release(self._reserved)

    def add(self, size: int, records: int, topic: str) -> None:
        """Count a section of ``size`` bytes that the call will decode, and reserve its objects."""
        self._bytes += size + records * self._width(topic) + SECTION_BYTES
        self.rows += records
        self._sections += 1
        if self._sections % _SECTIONS_PER_RESERVATION == 0:
            self.reserve(_SECTIONS_PER_RESERVATION * SECTION_BYTES)

    def rows_max(self, topic: str) -> int:
        """Returns how many rows a call decodes at most."""
        if self.part_bytes is None:
            return sys.maxsize
        return max(1, ROWS_BYTES_MAX // self._width(topic))

    def _width(self, topic: str) -> int:
        return row_bytes(self._columns, len(topic)) + self._columns.typed_bytes

    @property
    def is_full_of_sections(self) -> bool:
        """Whether the objects of its sections alone take more than a part may."""
        limit = self.part_bytes
        return limit is not None and limit < self._sections * SECTION_BYTES

    def is_full_with_structs(self, records: int) -> bool:
        """Whether the structs of so many records belong to the next call. Never without structs.

        Uncompressed batches need no lower limit, because the caller chooses their slices.
        """
        width = self._columns.typed_bytes
        return width > 0 and self.is_full_with(records * width)

    def is_overfull_with_structs(self, records: int) -> bool:
        """Whether the structs of so many records alone take more than a part may."""
        limit = self.part_bytes
        return limit is not None and limit < records * self._columns.typed_bytes

    def is_full_with(self, size: int) -> bool:
        """Whether the next record batch, of about ``size`` bytes, belongs to the next call."""
        limit = self.part_bytes
        return limit is not None and 0 < self._bytes and limit < self._bytes + size
