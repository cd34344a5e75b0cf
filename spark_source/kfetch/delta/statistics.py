"""What Delta notes of a file for data skipping: rows, smallest and largest values, nulls. Pure.

A Parquet writer has found them already, for the footer. So nothing is computed twice. A column
without certain bounds has none: a reader then reads the file. Sources: Delta's PROTOCOL.md,
"Per-file Statistics"; StatisticsCollection of delta-spark 4.4.0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = 32
"""So many leaf columns have statistics, unless delta.dataSkippingNumIndexedCols says otherwise."""
_TEXT_MAX = 32
"""Longer texts are cut, as by Delta in Spark."""
_LAST_CHARACTER = "\U0010ffff"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of a Parquet file."""

    path: tuple[str, ...]
    """The names from the table's column on, through structs."""
    type: pa.DataType | None
    """None within an array or a map: they have no statistics."""


def leaves(schema: pa.Schema) -> list[Leaf]:
    """Returns the columns of the Parquet file that a schema makes, in their order."""
    return [leaf for field in schema for leaf in _leaves(field.type, (field.name,))]


def _leaves(kind: pa.DataType, path: tuple[str, ...]) -> Iterator[Leaf]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(field.type, (*path, field.name))
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        inside = (kind.key_type, kind.item_type) if pa.types.is_map(kind) else (kind.value_type,)
        for part in inside:
            yield from (Leaf(leaf.path, None) for leaf in _leaves(part, path))
    else:
        yield Leaf(path, kind)


def columns_with_nan(batch: pa.RecordBatch, found: Sequence[Leaf]) -> set[int]:
    """Returns the indices of leaves with a NaN. Parquet's bounds pass it over; to Spark it is the
    largest number."""
    floats = [(i, leaf) for i, leaf in enumerate(found) if _is_float(leaf.type)]
    return {i for i, leaf in floats if pc.any(pc.is_nan(_column(batch, leaf))).as_py()}


def _is_float(kind: pa.DataType | None) -> bool:
    return kind is not None and pa.types.is_floating(kind)


def _column(batch: pa.RecordBatch, leaf: Leaf) -> Any:
    column: Any = batch.column(leaf.path[0])
    for name in leaf.path[1:]:
        # A name that begins with a dot or a bracket would count as a path of names.
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def file_statistics(metadata: Any, found: Sequence[Leaf], without_bounds: set[int]) -> str:
    """Returns the JSON of a file's statistics.

    ``metadata``: pyarrow's FileMetaData. ``found``: the leaves to describe, the first of the file.
    ``without_bounds``: indices of leaves whose bounds are uncertain.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for index, leaf in enumerate(found):
        chunks = [group.column(index) for group in groups]
        if leaf.type is None or not all(chunk.is_stats_set for chunk in chunks):
            continue
        _put(nulls, leaf.path, sum(chunk.statistics.null_count for chunk in chunks))
        bounds = None if index in without_bounds else _bounds(leaf.type, chunks)
        if bounds is not None:
            _put(lowest, leaf.path, bounds[0])
            _put(highest, leaf.path, bounds[1])
    return _json(
        {
            "numRecords": metadata.num_rows,
            "minValues": lowest,
            "maxValues": highest,
            "nullCount": nulls,
        }
    )


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _bounds(kind: pa.DataType, chunks: Sequence[Any]) -> tuple[Any, Any] | None:
    """Returns the least and the greatest value as the log has them; None if they are uncertain."""
    form = _form(kind)
    filled = [c.statistics for c in chunks if c.statistics.null_count < c.num_values]
    if form is None or not filled or not all(one.has_min_max for one in filled):
        return None
    try:
        if pa.types.is_temporal(kind):
            ends = min(s.min_raw for s in filled), max(s.max_raw for s in filled)
        else:
            ends = min(s.min for s in filled), max(s.max for s in filled)
        return form(ends[0], False), form(ends[1], True)
    except (UnicodeDecodeError, OverflowError):  # a text is no UTF-8; a year is beyond 9999
        return None


Form = Callable[[Any, bool], Any]
"""Returns a bound as the log has it. The second argument: whether it is the greatest value."""


def _form(kind: pa.DataType) -> Form | None:
    """Returns how bounds of a type are written; None for a type without bounds."""
    if pa.types.is_string(kind):
        return _text
    if pa.types.is_timestamp(kind):
        return _utc_moment if kind.tz else _moment
    if pa.types.is_date(kind):
        return _date
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return _number
    return None


def _number(value: Any, is_greatest: bool) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError("JSON has no such number")
    return value


def _text(value: str, is_greatest: bool) -> str:
    """Returns the text, or a shorter one that is still a bound. The order is that of the bytes."""
    end = _TEXT_MAX
    while is_greatest and value[end : end + 1] == _LAST_CHARACTER:
        end += 1
    cut = value[:end]
    return cut if cut == value or not is_greatest else cut + _LAST_CHARACTER


def _date(days: int, is_greatest: bool) -> str:
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def _utc_moment(microseconds: int, is_greatest: bool) -> str:
    return f"{_moment(microseconds, is_greatest)}Z"


def _moment(microseconds: int, is_greatest: bool) -> str:
    """Returns a time in whole milliseconds, as readers expect it, rounded away from the values."""
    milliseconds = -(-microseconds // 1000) if is_greatest else microseconds // 1000
    moment = _EPOCH + milliseconds * _MILLISECOND
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds")


def _json(value: Any) -> str:
    """Returns JSON. Decimals keep their digits, which ``json`` can't do."""
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(name)}:{_json(part)}" for name, part in value.items())
            + "}"
        )
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)
