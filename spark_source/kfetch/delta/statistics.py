"""What Delta notes of a file for data skipping: rows, smallest and largest values, nulls. Pure.

A Parquet writer has found them already, for the footer. So nothing is computed twice. A column
without certain bounds has none: a reader then reads the file. Arrays and maps have no bounds. The
footer counts nulls within them, not of them. So kfetch counts theirs in the batches. Sources:
Delta's PROTOCOL.md, "Per-file Statistics"; StatisticsCollection of delta-spark 4.4.0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kfetch.delta.columns import value_at

COLUMNS = 32
"""So many leaf columns have statistics, unless delta.dataSkippingNumIndexedCols says otherwise. An
array or a map is one of them."""
_TEXT_MAX = 32
"""Longer texts are cut, as by Delta in Spark."""
_LAST_CHARACTER = "\U0010ffff"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a field of structs, that is no struct."""

    path: tuple[str, ...]
    """The names from the table's column on, through structs."""
    type: pa.DataType | None
    """None for an array or a map."""
    index: int
    """Of the Parquet file's column; of its first one for an array or a map."""


def leaves(schema: pa.Schema) -> list[Leaf]:
    """Returns the columns of a schema, in their order."""
    return list(_leaves(pa.struct(list(schema)), (), 0))


def _leaves(kind: pa.DataType, path: tuple[str, ...], index: int) -> Iterator[Leaf]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(field.type, (*path, field.name), index)
            index += len(parquet_paths(field.type, ""))
    else:
        yield Leaf(path, None if pa.types.is_nested(kind) else kind, index)


def parquet_paths(kind: pa.DataType, path: str) -> list[str]:
    """Returns the paths of a Parquet file's columns that a column of a type makes."""
    if not pa.types.is_nested(kind):
        return [path]
    return [found for name, one in _fields(kind) for found in parquet_paths(one, f"{path}.{name}")]


def _fields(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Returns what a nested type has, by the names that Parquet gives it."""
    if pa.types.is_struct(kind):
        return [(field.name, field.type) for field in kind]
    if pa.types.is_map(kind):
        return [("key_value.key", kind.key_type), ("key_value.value", kind.item_type)]
    return [("list.element", kind.field(0).type)]


def chosen_leaves(found: Sequence[Leaf], count: int, paths: Sequence[Sequence[str]]) -> list[Leaf]:
    """Returns those that have statistics: these columns with all of their fields, in any case.

    Without ``paths``, the first ``count``; a negative count stands for all.
    """
    if not paths:
        return list(found[: count if count >= 0 else None])
    known = [tuple(name.lower() for name in path) for path in paths]
    return [leaf for leaf in found if any(_begins(leaf.path, path) for path in known)]


def _begins(path: Sequence[str], start: Sequence[str]) -> bool:
    return tuple(name.lower() for name in path[: len(start)]) == start


def nested_nulls(batch: pa.RecordBatch, found: Sequence[Leaf]) -> dict[int, int]:
    """Returns the nulls of each array and map, by its leaf's position in ``found``."""
    nested = [(i, leaf) for i, leaf in enumerate(found) if leaf.type is None]
    return {i: value_at(batch, leaf.path).null_count for i, leaf in nested}


def columns_with_nan(batch: pa.RecordBatch, found: Sequence[Leaf]) -> set[int]:
    """Returns the indices of leaves with a NaN. Parquet's bounds pass it over; to Spark it is the
    largest number."""
    floats = [(i, leaf) for i, leaf in enumerate(found) if _is_float(leaf.type)]
    return {i for i, leaf in floats if pc.any(pc.is_nan(value_at(batch, leaf.path))).as_py()}


def _is_float(kind: pa.DataType | None) -> bool:
    return kind is not None and pa.types.is_floating(kind)


def file_statistics(
    metadata: Any, found: Sequence[Leaf], without_bounds: set[int], nested: Mapping[int, int]
) -> str:
    """Returns the JSON of a file's statistics.

    ``metadata``: pyarrow's FileMetaData. ``found``: the leaves to describe. ``without_bounds``:
    the positions of leaves whose bounds are uncertain. ``nested``: the nulls of arrays and maps, by
    position.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for index, leaf in enumerate(found):
        if leaf.type is None:
            _put(nulls, leaf.path, nested[index])
            continue
        chunks = [group.column(leaf.index) for group in groups]
        if not all(chunk.is_stats_set for chunk in chunks):
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
