"""What every decoder of values returns, and one call of its compiled loops. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kfetch.formats.columns import layout
from kfetch.formats.columns.struct_column import Plan, StructColumn
from kfetch.records.arrow import Array, check_bytes
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
    """One call of ``decode``. It keeps everything whose address the loops get.

    The states of all formats have CORRUPT at the same place.
    """

    def __init__(self, plan: Plan, lengths: Array, memory: Memory, *, state_width: int) -> None:
        """``lengths``: the bytes of each value, below 0 for a null."""
        data_bytes = int(lengths.clip(0).sum(dtype=np.int64))
        check_bytes(data_bytes)
        self.column = StructColumn(plan, len(lengths), data_bytes, memory)
        self.corrupt = np.empty(len(lengths) + 1, np.int32)
        self.state = array("q", bytes(8 * state_width))
        self.refused = False
        """Whether a record needed more memory than one may have."""

    def corrupt_records(self) -> Array:
        """Decodes records until the part is full. Returns the numbers of the corrupt ones."""
        with suppress(PartIsFull):
            self.decode()
        return self.corrupt[: self.state[layout.CORRUPT]].copy()

    def decoded(self) -> DecodedColumn:
        """Decodes records until the part is full, and returns them."""
        corrupt = self.corrupt_records()
        return DecodedColumn(self.column.array(), corrupt)

    def decode(self) -> None:
        """Runs the loops. Raises PartIsFull behind the last record for which a part has room."""
        raise NotImplementedError
