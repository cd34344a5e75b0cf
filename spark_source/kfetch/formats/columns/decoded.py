"""What every decoder of values returns, and one call of its compiled loops. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError
from kfetch.formats.columns.node_table import (
    CORRUPT,
    DONE,
    FULL,
    NODE_COUNT,
    RECORD,
    REFUSED,
    STATE_WIDTH,
    STUCK_NODE,
)
from kfetch.formats.columns.struct_column import Plan, StructColumn, too_large
from kfetch.records.arrow import Array, check_bytes
from kfetch.records.codecs import address_of
from kfetch.records.memory import UNLIMITED, Memory, PartIsFull

FormatLoop = Callable[..., int]
"""The compiled function of a format (``loading.load``)."""


class DecodedColumn(NamedTuple):
    """The struct column of many records."""

    values: pa.StructArray
    """A row for each record. Null values are null. So is a corrupt one, except in JSON, where its
    row is partial."""
    corrupt: Array
    """int32: the numbers of the records that can't be decoded, in order."""


class Problem(NamedTuple):
    """Why a value can't be decoded."""

    what: str
    at: int
    """The byte of the value, from 0, where it starts to be wrong. In JSON, bytes that are not UTF-8
    count as three."""


class ValueDecoder(Protocol):
    """Decodes the values of one column, in any number of threads."""

    @property
    def row_bytes(self) -> int:
        """Bytes that a record takes beside its text."""

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED, /) -> DecodedColumn:
        """Returns the struct column of a binary column, with fewer rows if a part is full."""

    def problem(self, value: bytes, memory: Memory = UNLIMITED, /) -> Problem | None:
        """Returns why a value can't be decoded, and where; None if it can."""

    def unknown_fields(self, value: bytes, /) -> Iterable[str]:
        """Returns the fields of a value that the schema lacks."""


class LoopCall:
    """One call of ``decode``. It keeps everything whose address the loops get."""

    def __init__(
        self,
        loops: FormatLoop,
        plan: Plan,
        data: memoryview | bytes,
        positions: Array,
        lengths: Array,
        memory: Memory,
        *tables: Array,
    ) -> None:
        """``data``, ``positions``, ``lengths``, ``memory``: as for a decoder's ``decode``.

        ``tables``: those of the format, behind the parameters that all formats have.
        Raises KfetchError for a value outside ``data``, and for more than a column can hold.
        """
        self._loops = loops
        self._view = pa.py_buffer(memoryview(data))
        self._positions = np.ascontiguousarray(positions, np.int64)
        self._lengths = np.ascontiguousarray(lengths, np.int32)
        sizes = self._lengths.clip(0)
        data_bytes = int(sizes.sum(dtype=np.int64))
        check_bytes(data_bytes)
        if len(sizes) and (
            self._positions.min() < 0 or (self._positions + sizes).max() > self._view.size
        ):
            raise KfetchError("a value lies outside the memory of its batch")
        self.column = StructColumn(plan, len(sizes), data_bytes, memory)
        self.corrupt = np.empty(len(sizes) + 1, np.int32)
        self.state = array("q", bytes(8 * STATE_WIDTH))
        """The numbers of ``node_table``, and behind them those of the format."""
        self.state[NODE_COUNT], self.state[REFUSED] = len(plan.types), -1
        self._tables = self.column.table, plan.flat_nodes, self.corrupt, *tables
        self._addresses = self.state.buffer_info()[0], *map(address_of, self._tables)

    def corrupt_records(self) -> Array:
        """Decodes records until the part is full. Returns the numbers of the corrupt ones."""
        with suppress(PartIsFull):
            self.decode()
        return self.corrupt[: self.state[CORRUPT]].copy()

    def decoded(self) -> DecodedColumn:
        """Decodes records until the part is full, and returns them."""
        corrupt = self.corrupt_records()
        return DecodedColumn(self.column.array(), corrupt)

    def problem(self, reason: Callable[[array[int]], Problem | None]) -> Problem | None:
        """Returns why the only value can't be decoded; None if it can.

        ``reason``: says what the state means, if the value is not just too large.
        """
        if not len(self.corrupt_records()):
            return None
        if self.state[REFUSED] >= 0:
            return Problem(too_large(int(self._lengths[0])), 0)
        return reason(self.state)

    def decode(self) -> None:
        """Runs the loops. Raises PartIsFull behind the last record for which a part has room."""
        self.loop(self._view, self._positions, self._lengths)

    def loop(
        self, view: pa.Buffer, positions: Array, lengths: Array, *, value_bytes: int = 0
    ) -> int:
        """Calls the loops, with larger buffers as often as they need them. Returns their result.

        A record that needs more memory than one may have is corrupt. ``value_bytes``: the size of
        the record's value, if the document stands for another one.
        """
        records = address_of(positions), address_of(lengths)
        large = -1  # the record that may be too large: it runs alone, so that its size is known
        while True:
            count = large + 1 if large >= 0 else len(positions)
            corrupt = self.state[CORRUPT]
            result = self._loops(view.address, view.size, *records, count, *self._addresses)
            if result == FULL:
                record = self.state[RECORD]
                size = value_bytes or int(lengths[record])
                if not self.column.grow(self.state[STUCK_NODE], size):
                    self.state[REFUSED], large = record, -1
                elif self.column.may_exceed(size):
                    large = record
                continue
            if result != DONE or large < 0:
                return result
            if self.column.take_back(size):
                self.state[RECORD] = self.state[REFUSED] = large
                self.state[CORRUPT] = corrupt
            large = -1


def alone(value: memoryview | bytes) -> tuple[memoryview | bytes, Array, Array]:
    """Returns the data, positions and lengths of a single value."""
    return value, np.zeros(1, np.int64), np.full(1, len(value), np.int32)
