"""Decodes text of fixed width: each field has its bytes, and spaces behind the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.formats.columns.decoded import DecodedColumn, Problem
from kfetch.formats.columns.struct_column import positions_of
from kfetch.records.codecs import address_of
from kfetch.records.memory import UNLIMITED, Memory


class FixedDecoder:
    """Decodes the values of one column."""

    def __init__(self, widths: Mapping[str, int], loop: Callable[..., int]) -> None:
        self._widths, self._loop = widths, loop
        self._width = sum(widths.values())
        self.row_bytes = 4 * len(widths) + 1

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        _, _, lengths = positions_of(column)
        lengths = np.ascontiguousarray(lengths, np.int32)
        memory.reserve(len(column) * (self.row_bytes + self._width))
        corrupt = np.empty(len(column), np.int32)
        found = self._loop(address_of(lengths), len(lengths), self._width, address_of(corrupt))
        corrupt = corrupt[:found]
        nulls = np.asarray(lengths != self._width)
        values = [b"" if null else value.as_py() for value, null in zip(column, nulls, strict=True)]
        return DecodedColumn(self._structs(values, pa.array(nulls)), corrupt)

    def problem(self, value: bytes, memory: Memory = UNLIMITED) -> Problem | None:
        if len(value) == self._width:
            return None
        return Problem(f"it has {len(value)} bytes", min(len(value), self._width))

    def unknown_fields(self, value: bytes) -> Iterable[str]:
        return ()

    def _structs(self, values: list[bytes], nulls: pa.Array[Any]) -> pa.StructArray:
        """Returns the values as structs. Fields of a null struct are null, too."""
        at, fields = 0, []
        for width in self._widths.values():
            texts = [value[at : at + width].decode().rstrip() or None for value in values]
            fields.append(pa.array(texts, pa.string()))
            at += width
        return pa.StructArray.from_arrays(fields, [*self._widths], mask=nulls)
