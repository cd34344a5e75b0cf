"""Memory in which the compiled loops can't read or write one byte too many without a crash.

Each buffer ends at a page that nobody may touch, and another such page stands before it. Bytes that
alignment leaves free have a pattern, which must still be there at the end.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.formats.columns import node_table as nodes
from kfetch.formats.columns.struct_column import Plan, StructColumn
from kfetch.records.memory import Memory

__all__ = ["GuardedColumn", "GuardedMemory"]

_PAGE = mmap.PAGESIZE
_NO_ACCESS, _READ_WRITE = 0, 3
_ALIGNMENT = 16  # the loops write numbers of up to 64 bits at aligned addresses
_PATTERN = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)


class GuardedMemory:
    """Writable bytes between two pages without access."""

    def __init__(self, size: int, *, alignment: int = _ALIGNMENT) -> None:
        """``alignment``: of the first byte. With 1, the page behind starts at once."""
        pages = -(-(size + alignment) // _PAGE)
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._walls = first, first + (pages + 1) * _PAGE
        start = (pages * _PAGE - size) // alignment * alignment
        whole = np.frombuffer(self._map, np.uint8)[_PAGE : (pages + 1) * _PAGE]
        whole[:] = _PATTERN
        self.bytes: np.ndarray[Any, Any] = whole[start : start + size]
        self.address = first + _PAGE + start
        self._rest = whole[:start], whole[start + size :]
        self._protect(_NO_ACCESS)

    def check(self) -> None:
        """Raises AssertionError if somebody wrote beside the bytes."""
        assert all((part == _PATTERN).all() for part in self._rest)

    def _protect(self, access: int) -> None:
        for wall in self._walls:
            if _libc.mprotect(ctypes.c_void_p(wall), ctypes.c_size_t(_PAGE), access):
                raise OSError(ctypes.get_errno(), "mprotect")

    def __del__(self) -> None:
        """Makes the pages usable again, because the C library may give them to others."""
        self._protect(_READ_WRITE)


class GuardedColumn(StructColumn):
    """A column whose every buffer is guarded, also those that grow."""

    def __init__(self, plan: Plan, rows: int, data_bytes: int, memory: Memory) -> None:
        super().__init__(plan, rows, data_bytes, memory)
        self._guarded: dict[tuple[int, int], GuardedMemory] = {}
        for share in plan.shares:
            slots, room = (int(self.table[share.node, i]) for i in (nodes.CAPACITY, nodes.ROOM))
            size = room if share.is_text else (slots * share.bits >> 3) + 8
            self._resize(share.node, share.column, 0, size)
            if share.column == nodes.ENDS:
                self._guarded[share.node, share.column].bytes[:4] = 0

    def _resize(self, number: int, column: int, old_size: int, size: int) -> None:
        new, old = GuardedMemory(size), self._guarded.get((number, column))
        if old is not None:
            old.check()
            new.bytes[:old_size] = old.bytes[:old_size]
        self._guarded[number, column] = new
        self.table[number, column] = new.address

    def array(self) -> pa.StructArray:
        """Returns the column, with a copy of its buffers."""
        for place, memory in self._guarded.items():
            memory.check()
            self._grown[place] = pa.py_buffer(memory.bytes.tobytes())
        return super().array()
