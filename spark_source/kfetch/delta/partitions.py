"""The partition columns of a table: their values for each row, and what the log says. Pure.

A table's files have no partition columns; the log has their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfetch.delta.columns import TableColumn, mistake, parse_column, value_of
from kfetch.delta.types import TableField, type_text
from kfetch.records.java_text import java_text

_COLUMN_TYPES = {"string", "byte", "short", "integer", "long", "date", "boolean"}
"""The types of columns that may be partition columns."""
_CODES_MAX = 2**63
"""So many combinations of values have different codes."""
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")

Values = tuple[str | None, ...]
"""The values of all partition columns as the log has them."""


def parse_partitions(
    given: Mapping[str, str] | Sequence[str],
    columns: Sequence[TableColumn],
    fields: Sequence[TableField],
    zone: str,
) -> tuple[TableColumn, ...]:
    """Returns the partition columns of ``partition_by``: columns, or names and expressions.

    ``columns``: what the query writes. An expression adds a column to them. ``fields``: the columns
    of the source. ``zone``: that of expressions without one. Raises OptionError.
    """
    if isinstance(given, str):
        given = [given]
    pairs = given if isinstance(given, Mapping) else {name: name for name in given}
    known = {one.name.lower(): one for one in columns}
    parsed = tuple(_partition(name, text, known, fields, zone) for name, text in pairs.items())
    names: set[str] = set()
    for one in parsed:
        if one.name.lower() in names:
            raise mistake(one.name, "it is there twice")
        names.add(one.name.lower())
    if parsed and names >= set(known):
        raise mistake("", "it names all columns, and a table needs one that is no partition column")
    for one in columns:
        if one.function and one.name.lower() not in names:
            raise mistake(one.name, "only a partition column may be a function")
    return parsed


def _partition(
    name: str, text: str, known: Mapping[str, TableColumn], fields: Sequence[TableField], zone: str
) -> TableColumn:
    column = known.get(text.strip().lower())
    if column is None:
        column = parse_column(name, text, fields, zone)
        if column.function and name.lower() not in known:
            return column
        whose = ".".join(column.path)
        what = f"has a column {name} already" if column.function else f"does not write {whose}"
        raise mistake(name, f"the stream {what}")
    if name.lower() != column.name.lower():
        raise mistake(name, f"a partition column of {column.name} needs the same name")
    if column.type not in _COLUMN_TYPES:
        raise mistake(name, f"{type_text(column.type)} is no type of a partition column")
    return column


def split(
    rows: pa.RecordBatch, partitions: Sequence[TableColumn], batch: pa.RecordBatch
) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """Yields rows by the values of their partition columns, in the rows' order.

    ``batch`` has the source's columns of these rows, in the same order.
    """
    if not rows.num_rows:
        return
    if not partitions:
        yield (), rows
        return
    texts, codes = _codes(batch, partitions)
    _, counts = np.unique(codes, return_counts=True)
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
    for group in groups:
        part = rows if len(groups) == 1 else rows.take(group)
        yield tuple(text[group[0]] for text in texts), part


class _RowTexts:
    """The text of a row's value in one column."""

    def __init__(self, encoded: Any) -> None:
        self.codes: Any = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self._texts = _texts(encoded.dictionary)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row: int) -> str | None:
        return self._texts[int(self.codes[row])]


def _codes(batch: pa.RecordBatch, partitions: Sequence[TableColumn]) -> tuple[list[_RowTexts], Any]:
    """Returns the texts of each column, and for each row a number that stands for all of them."""
    texts: list[_RowTexts] = []
    codes: Any = np.zeros(batch.num_rows, np.int64)
    combinations = 1
    for one in partitions:
        text = _RowTexts(pc.dictionary_encode(value_of(batch, one), null_encoding="encode"))
        texts.append(text)
        if combinations * len(text) > _CODES_MAX:
            found, codes = np.unique(codes, return_inverse=True)
            combinations = len(found)
        codes = codes * len(text) + text.codes
        combinations *= len(text)
    return texts, codes


def _texts(values: Any) -> list[str | None]:
    """Returns values as Delta's log has them. An empty text counts as null there."""
    if pa.types.is_string(values.type):  # it may be no UTF-8, and Spark replaces such bytes, too
        texts = values.cast(pa.binary()).to_pylist()
        return [java_text(text) if text else None for text in texts]
    if pa.types.is_date(values.type):  # Python's dates end with the year 9999
        return [_day_text(day) for day in values.cast(pa.int32()).to_pylist()]
    return [_text(value) for value in values.to_pylist()]


def _day_text(days: int | None) -> str | None:
    """Returns a day as Spark writes it. ``days``: since 1970."""
    if days is None:
        return None
    day = np.datetime64(days, "D")
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{str(day)[-6:]}"


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def directory(partitions: Sequence[TableColumn], values: Values) -> str:
    """Returns the directory of files with these values, for people: readers look into the log.

    Characters that a path or a URI would change are underscores there.
    """
    pairs = zip(partitions, values, strict=True)
    default = "__HIVE_DEFAULT_PARTITION__"
    return "".join(f"{_safe(one.name)}={_safe(text or default)}/" for one, text in pairs)


def _safe(text: str) -> str:
    return _PLAIN.sub("_", text)[:64]
