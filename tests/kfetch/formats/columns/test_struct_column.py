"""The buffers of a struct column: what it costs to make them larger."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from kfetch.formats.columns import struct_column
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.struct_column import Plan, StructColumn
from kfetch.records.memory import UNLIMITED


def _lines_of_growth(fields: int) -> int:
    """Returns how many lines of code run while a list of structs gets room for more elements."""
    names = ", ".join(f"f{i}: INT" for i in range(fields))
    column = StructColumn(Plan(parse_schema(f"a ARRAY<STRUCT<{names}>>")), 1, 0, UNLIMITED)
    lines = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != struct_column.__file__:
            return None
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        assert column.grow(~2, 1)
    finally:
        sys.settrace(before)
    return lines


def test_the_work_to_grow_is_that_of_the_fields() -> None:
    """Elements with four times the fields cost four times the work, and not sixteen times."""
    assert _lines_of_growth(400) <= 4 * _lines_of_growth(100)
