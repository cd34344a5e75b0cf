"""The buffers of a struct column: what it costs to make them larger."""

from __future__ import annotations

from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.struct_column import Plan, StructColumn
from kfetch.records.memory import UNLIMITED
from tests.kfetch.formats.work import lines_run


def test_the_work_to_grow_is_that_of_the_fields() -> None:
    """Elements with four times the fields cost four times the work, and not sixteen times."""

    def work(fields: int) -> int:
        names = ", ".join(f"f{i}: INT" for i in range(fields))
        column = StructColumn(Plan(parse_schema(f"a ARRAY<STRUCT<{names}>>")), 1, 0, UNLIMITED)
        return lines_run(lambda: column.grow(~2, 1))

    assert work(400) <= 4 * work(100)
