"""Text of fixed width as a format of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from kfetch.formats.columns.types import Kind, ValueType, struct_of
from kfetch.formats.format import Format
from tests.kfetch.formats.toy.decoder import FixedDecoder
from tests.kfetch.formats.toy.options import FixedColumn


class FixedFormat(Format[FixedColumn]):
    title = "Fixed"
    parameters: ClassVar = {"find_corrupt": ("int32*", "int64", "int64", "int32*")}
    loop_modules = ()

    def value_type(self, column: FixedColumn) -> ValueType:
        return struct_of([(name, ValueType(Kind.STRING)) for name in column.widths])

    def decoder(self, column: FixedColumn, loop: Callable[..., int]) -> FixedDecoder:
        return FixedDecoder(column.widths, loop)


FORMAT = FixedFormat()
