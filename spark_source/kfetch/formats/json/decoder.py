"""Decodes the values of many records into one struct column, with the meaning of ``from_json``.

The compiled loops decode nearly all documents. Where they stop, ``reference`` decides, and the
loops go on behind that document. The positions point into the memory of the caller, which is not
copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.errors import OptionError
from kfetch.formats.columns.ddl import kind_text
from kfetch.formats.columns.decoded import DecodedColumn, FormatLoop, LoopCall, Problem, alone
from kfetch.formats.columns.node_table import CORRUPT, DONE, DOUBTFUL, RECORD, REFUSED, SLACK
from kfetch.formats.columns.raw_copies import copies
from kfetch.formats.columns.struct_column import Plan, positions_of
from kfetch.formats.columns.types import Kind, ValueType
from kfetch.formats.json import reference
from kfetch.formats.json.infer import unknown_in_json
from kfetch.formats.json.loop_tables import DEPTH_MAX, POWERS, RAW, ZONE_RULES
from kfetch.formats.json.substitutes import substitute
from kfetch.formats.json.time_zones import zone_rules
from kfetch.formats.json.times import Zones
from kfetch.records.arrow import Array
from kfetch.records.memory import UNLIMITED, Memory

CORRUPT_COLUMN = "_corrupt_record"
"""Spark's default of spark.sql.columnNameOfCorruptRecord."""
_UTC = Zones()


class JsonDecoder:
    """Decodes documents of one schema, in any number of threads."""

    def __init__(self, schema: ValueType, loops: FormatLoop, zones: Zones = _UTC) -> None:
        """``schema``: a struct. ``loops``: the compiled code (``loading.load``).

        Raises OptionError if the schema's corrupt record column is no STRING.
        """
        self.schema = schema
        self._zones = zones
        self.loops = loops
        check_corrupt_column(schema)
        has_column = CORRUPT_COLUMN in schema.names
        self._corrupt_at = schema.names.index(CORRUPT_COLUMN) if has_column else None
        decoded = schema.without(CORRUPT_COLUMN) if has_column else schema
        self.plan = Plan(decoded)
        """The nodes of the columns."""
        self.row_bytes = self.plan.row_bytes
        """Bytes that a record takes beside its text."""

    def decode(
        self,
        data: memoryview | bytes,
        positions: Array,
        lengths: Array,
        memory: Memory = UNLIMITED,
        *,
        texts: tuple[Array, Array] | None = None,
    ) -> DecodedColumn:
        """Returns the column of values that lie in ``data``, and of fewer if a part is full.

        ``positions``: int64, where each value starts. ``lengths``: int32, its bytes, below 0 for a
        null. The bytes must not change meanwhile. The result does not refer to them. ``texts``:
        positions and lengths of what the corrupt record column gets, if not the values.
        Raises KfetchError for more bytes of values than a column can hold.
        """
        run = _JsonRun(self, data, positions, lengths, memory)
        corrupt = run.corrupt_records()
        values = run.column.array()
        if self._corrupt_at is not None:
            positions, lengths = texts or (positions, lengths)
            text = copies(data, positions, np.asarray(lengths)[: len(values)], corrupt, memory)
            values = self._with_corrupt_column(values, text)
        return DecodedColumn(values, corrupt)

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """Returns the same for the values of a binary column."""
        return self.decode(*positions_of(column), memory)

    def problem(self, value: bytes | memoryview, memory: Memory = UNLIMITED) -> Problem | None:
        """Returns why a value is corrupt, and where; None if it is not."""
        decided = self.reference_row(value)
        if decided.problem is not None and not decided.is_too_large:
            return decided.problem
        # The loops know whether the columns have room. That costs more than a small value's reason.
        return _JsonRun(self, *alone(value), memory).problem(lambda _: decided.problem)

    def unknown_fields(self, value: bytes) -> Iterable[str]:
        """Returns the fields of a value that the schema lacks."""
        return unknown_in_json(value, self.plan.schema)

    def reference_row(self, value: bytes | memoryview) -> reference.ReferenceRow:
        """Returns a value's row, slowly."""
        return reference.decode(value, self.plan.schema, self._zones)

    def _with_corrupt_column(self, values: Any, text: Any) -> pa.StructArray:
        """Returns the column with the text of the corrupt records, whose bytes are not checked."""
        column = pa.Array.from_buffers(pa.string(), len(text), text.buffers(), text.null_count)
        arrays = [values.field(i) for i in range(values.type.num_fields)]
        arrays.insert(self._corrupt_at or 0, column)
        fields = [
            pa.field(name, item.type) for name, item in zip(self.schema.names, arrays, strict=True)
        ]
        valid = values.buffers()[0]
        kind, count = pa.struct(fields), len(values)
        made: Any = pa.Array.from_buffers(kind, count, [valid], children=arrays)
        result: pa.StructArray = made
        return result

    @cached_property
    def zone_table(self) -> Array:
        """The offsets of the session's time zone; short ones if no column needs them."""
        zone = self._zones.session
        needed = any(kind.kind is Kind.TIMESTAMP for kind in self.plan.types)
        return zone_rules(zone if needed or not isinstance(zone, tzinfo) else 0)


def check_corrupt_column(schema: ValueType, *, column: str = "value") -> None:
    """Raises OptionError if the field for the text of corrupt records is no STRING."""
    kind = dict(zip(schema.names, schema.children, strict=False)).get(CORRUPT_COLUMN)
    if kind and kind.kind is not Kind.STRING:
        raise OptionError(
            f"{column}Schema gives the field {CORRUPT_COLUMN} the type {kind_text(kind.kind)}, but "
            "it gets the text of values that do not fit",
            action="give it the type STRING",
            option=f"{column}Schema",
        )


class _JsonRun(LoopCall):
    """One call of ``decode``."""

    def __init__(
        self, decoder: JsonDecoder, data: Any, positions: Array, lengths: Array, memory: Memory
    ) -> None:
        values = data, positions, lengths, memory
        stack = np.zeros(2 * DEPTH_MAX + 2, np.int64)  # the open containers
        super().__init__(decoder.loops, decoder.plan, *values, POWERS, decoder.zone_table, stack)
        self._decoder = decoder
        self._data = memoryview(data)
        self.state[ZONE_RULES] = len(decoder.zone_table)

    def decode(self) -> None:
        while self.loop(self._view, self._positions, self._lengths) == DOUBTFUL:
            record = self.state[RECORD]
            start = int(self._positions[record])
            self._decide(record, self._data[start : start + int(self._lengths[record])])
            self.state[RECORD] = record + 1

    def _decide(self, record: int, value: memoryview) -> None:
        """Decodes the value that the loops could not decode."""
        is_last = int(self._positions[record]) + len(value) + SLACK > len(self._data)
        # The loops read some bytes behind each value, so the last one may only need a copy.
        if is_last and self._one(bytes(value), raw=0, record=record) == DONE:
            return
        row, problem, _ = self._decoder.reference_row(value)
        corrupt = self.state[CORRUPT]
        document = substitute(row, self._decoder.plan.schema)
        if self._one(document, raw=1, record=record) != DONE:
            raise AssertionError(f"the loops refuse the row of record {record}")
        if problem is not None:
            self.corrupt[corrupt] = record
            self.state[CORRUPT] = corrupt + 1

    def _one(self, document: bytes, *, raw: int, record: int) -> int:
        """Decodes one document from other memory. ``raw``: whether it is a substitute."""
        corrupt = self.state[CORRUPT]
        # The document is record 0 of its call. A refused record 0 of the batch is another one.
        self.state[RECORD], self.state[RAW], self.state[REFUSED] = 0, raw, -1
        _, position, length = alone(document)
        view = pa.py_buffer(document + bytes(SLACK))
        result = self.loop(view, position, length, value_bytes=int(self._lengths[record]))
        self.state[RAW] = 0
        if self.state[CORRUPT] > corrupt:
            self.corrupt[corrupt] = record
        return result
