"""How much memory one decode call may take, and who counts it.

A compressed reply may unpack to many times its size. So a decode call reads only a part of its
slices, and the caller decodes the rest in another call.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from kfetch.records.arrow import STANDARD_COLUMNS, Columns, row_bytes
from kfetch.records.batch import Slice


class Memory:
    """The memory of decode calls, which nobody counts. The agent counts it against its budget."""

    def __init__(self, part_bytes: int | None = None) -> None:
        self._part_bytes = part_bytes

    @property
    def part_bytes(self) -> int | None:
        """Bytes that the rows of one call may take, None for no limit.

        A call unpacks at least one record batch of the broker, whatever its size.
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
        """Count records of ``size`` bytes that the call will decode."""
        width = row_bytes(self._columns, len(topic)) + self._columns.typed_bytes
        self._bytes += size + records * width

    def is_full_with_structs(self, records: int) -> bool:
        """Whether the structs of so many records belong to the next call. Never without structs.

        Uncompressed batches need no other limit, because the caller chooses their slices.
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
