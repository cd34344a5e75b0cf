"""The records of a batch that can't be decoded: how many, why, and the column ``deadLetter``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kfetch.formats.columns.raw_copies import copies, is_listed, texts
from kfetch.formats.columns.struct_column import positions_of
from kfetch.formats.places import places
from kfetch.options import SourceOptions
from kfetch.records import Memory, Slice
from kfetch.records.arrow import Array

_TYPE = pa.struct(
    [pa.field("error", pa.string()), pa.field("key", pa.binary()), pa.field("value", pa.binary())]
)
ROW_BYTES = 13
"""Bytes that a row of the column takes, good records included: three offsets and four bits."""

UNEXAMINED = "not examined"
"""The kind of records whose reason nobody looked for."""
_EXAMINED_MAX = 16
"""Records of a batch whose reasons are found for the statistics alone. A small one takes 0.1 ms."""
_EXAMINED_BYTES = 16 << 10
"""Bytes of their values, except for the first one. A kB of JSON takes up to 1 ms."""
_KIND_MAX = 100
_SENTENCE_MAX = 500
"""Characters. Names of fields may be long."""


class Reason(NamedTuple):
    """Why a key or a value can't be decoded."""

    kind: str
    """Without the place in the value, for statistics."""
    sentence: str


class Misfits:
    """The records of one batch that can't be decoded, with their reasons."""

    def __init__(self, *, all_reasons: bool) -> None:
        """``all_reasons``: whether the reason of each record is needed."""
        self._all_reasons = all_reasons
        self._rows: list[Array] = []
        self.kinds: dict[int, str] = {}
        self._sentences: dict[int, str] = {}

    def add(self, records: Array, sizes: Array, reason: Callable[[int], Reason]) -> None:
        """Add the records whose key or value can't be decoded. ``reason`` gives that of one.

        ``sizes``: the bytes of these keys or values.
        """
        self._rows.append(records)
        if not self._all_reasons:
            fit = np.cumsum(sizes[:_EXAMINED_MAX]) <= _EXAMINED_BYTES
            records = records[: max(1, int(fit.sum()))]
        for row in records.tolist():
            kind, sentence = reason(row)
            self.kinds.setdefault(row, kind[:_KIND_MAX])
            before = f"{self._sentences[row]}; " if row in self._sentences else ""
            self._sentences[row] = (before + sentence)[:_SENTENCE_MAX]

    @property
    def rows(self) -> Array:
        """The numbers of the records, in order."""
        return np.unique(np.concatenate(self._rows)) if self._rows else np.zeros(0, np.int32)

    @property
    def sentences(self) -> list[str]:
        """The reasons, in the order of the records."""
        return [self._sentences[row] for row in self.rows.tolist()]


def counts(
    misfits: Misfits,
    batch: pa.RecordBatch,
    slices: Sequence[Slice],
    options: SourceOptions,
    memory: Memory,
) -> Iterator[tuple[str, str, int]]:
    """Yields topic, kind and number of records that can't be decoded.

    ``slices``: what the batch was decoded from.
    """
    if not misfits.kinds:
        return
    rows = misfits.rows.tolist()
    kinds = (misfits.kinds.get(row, UNEXAMINED) for row in rows)
    topics = _topics(rows, batch, slices, options, memory)
    for (topic, kind), records in Counter(zip(topics, kinds, strict=True)).items():
        yield topic, kind, records


def _topics(
    rows: list[int],
    batch: pa.RecordBatch,
    slices: Sequence[Slice],
    options: SourceOptions,
    memory: Memory,
) -> list[str]:
    topics = {one.tp.topic for one in slices}
    if len(topics) == 1:
        return [*topics] * len(rows)
    if "topic" in batch.schema.names:
        named: Any = batch.column("topic").take(pa.array(rows, pa.int64()))
        topics_of_rows: list[str] = named.to_pylist()
        return topics_of_rows
    return [tp.topic for tp, _ in places(slices, rows, options, memory)]


def column_of(misfits: Misfits, batch: pa.RecordBatch, memory: Memory) -> Any:
    """Returns the column: null for good records; the reason, key and value of all others.

    ``batch``: with keys and values as bytes. A column that it lacks is null.
    """
    rows, count = misfits.rows, batch.num_rows
    if not len(rows):
        memory.reserve(4 * (count + 1))  # Arrow shares one buffer of zeros
        return pa.nulls(count, _TYPE)
    errors = texts(count, rows, misfits.sentences, memory)
    raw = [_raw(batch, name, rows, memory) for name in ("key", "value")]
    return pa.Array.from_buffers(
        _TYPE, count, [is_listed(count, rows)], count - len(rows), children=[errors, *raw]
    )


def _raw(batch: pa.RecordBatch, name: str, rows: Array, memory: Memory) -> Any:
    at = batch.schema.get_field_index(name)
    if at < 0:
        memory.reserve(4 * (batch.num_rows + 1))
        return pa.nulls(batch.num_rows, pa.binary())
    return copies(*positions_of(batch.column(at)), rows, memory)
