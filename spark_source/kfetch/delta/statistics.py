"""What Delta notes of a file for data skipping: rows, smallest and largest values, nulls. Pure.

A Parquet writer has found them already, for the footer. So nothing is computed twice. A column
without certain bounds has none: a reader then reads the file. Arrays and maps have no bounds, and
the footer counts nulls within them, not of them. Floats have no statistics in the footer, because a
writer passes over NaN there. To Spark it is the largest number, so Spark would skip its rows. So
kfetch looks at floats, arrays and maps itself. Sources: Delta's PROTOCOL.md, "Per-file Statistics";
StatisticsCollection of delta-spark 4.4.0.
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
            index += len(_paths(field.type, ""))
    else:
        yield Leaf(path, None if pa.types.is_nested(kind) else kind, index)


def column_paths(schema: pa.Schema) -> list[str]:
    """Returns the paths of a Parquet file's columns."""
    return [path for field in schema for path in _paths(field.type, field.name)]


def _paths(kind: pa.DataType, path: str) -> list[str]:
    """Returns the paths of a Parquet file's columns that a column of a type makes."""
    if not pa.types.is_nested(kind):
        return [path]
    return [found for name, one in _fields(kind) for found in _paths(one, f"{path}.{name}")]


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


def footer_columns(schema: pa.Schema) -> list[str]:
    """Returns the paths of a Parquet file's columns that have statistics in the footer."""
    floats = {".".join(leaf.path) for leaf in leaves(schema) if _is_float(leaf.type)}
    return [path for path in column_paths(schema) if path not in floats]


class SeenValues:
    """What a file's rows have that its footer does not say."""

    def __init__(self, found: Sequence[Leaf]) -> None:
        self._looked_at = [
            (i, leaf) for i, leaf in enumerate(found) if leaf.type is None or _is_float(leaf.type)
        ]
        self.nulls: dict[int, int] = dict.fromkeys((i for i, _ in self._looked_at), 0)
        """Of arrays, maps and floats, by the leaf's position in ``found``."""
        self.ranges: dict[int, tuple[float, float]] = {}
        """Of floats that are not all null. An infinite end stands for a NaN, too."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at rows of the file."""
        for i, leaf in self._looked_at:
            values = value_at(batch, leaf.path)
            self.nulls[i] += values.null_count
            if leaf.type is not None and values.null_count < len(values):
                low, high = _range(values)
                old = self.ranges.get(i, (low, high))
                self.ranges[i] = min(low, old[0]), max(high, old[1])


def _range(values: pa.Array[Any]) -> tuple[float, float]:
    if pc.any(pc.is_nan(values)).as_py():
        return -math.inf, math.inf
    ends: Any = pc.min_max(values).as_py()
    return ends["min"] or -0.0, ends["max"] or 0.0


def _is_float(kind: pa.DataType | None) -> bool:
    return kind is not None and pa.types.is_floating(kind)


def file_statistics(metadata: Any, found: Sequence[Leaf], seen: SeenValues) -> str:
    """Returns the JSON of a file's statistics.

    ``metadata``: pyarrow's FileMetaData. ``found``: the leaves to describe. ``seen``: what else
    their rows have.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for index, leaf in enumerate(found):
        chunks = [group.column(leaf.index) for group in groups]
        if index in seen.nulls:
            _put(nulls, leaf.path, seen.nulls[index])
            ends = seen.ranges.get(index)
        elif all(chunk.is_stats_set for chunk in chunks):
            _put(nulls, leaf.path, sum(chunk.statistics.null_count for chunk in chunks))
            ends = _ends(leaf.type, chunks)
        else:
            continue
        bounds = None if ends is None else _bounds(leaf.type, ends)
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


def _ends(kind: pa.DataType | None, chunks: Sequence[Any]) -> tuple[Any, Any] | None:
    """Returns the least and the greatest value; None if the footer does not say."""
    filled = [c.statistics for c in chunks if c.statistics.null_count < c.num_values]
    if not filled or not all(one.has_min_max for one in filled):
        return None
    try:
        if kind is not None and pa.types.is_temporal(kind):
            return min(s.min_raw for s in filled), max(s.max_raw for s in filled)
        return min(s.min for s in filled), max(s.max for s in filled)
    except UnicodeDecodeError:  # a text is no UTF-8
        return None


def _bounds(kind: pa.DataType | None, ends: tuple[Any, Any]) -> tuple[Any, Any] | None:
    """Returns the least and the greatest value as the log has them; None if they are uncertain."""
    form = _form(kind) if kind is not None else None
    if form is None:
        return None
    try:
        return form(ends[0], False), form(ends[1], True)
    except OverflowError:  # a year is beyond 9999, or a number is infinite
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
    """Returns JSON. Decimals keep their digits, which ``json`` can't do.

    Without escapes: delta-rs misreads those of characters beyond the first plane of Unicode.
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(part)}" for name, part in value.items()) + "}"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)
