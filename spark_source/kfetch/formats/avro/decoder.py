"""Decodes the Avro values of many records into one column, as Spark's ``from_avro`` does.

The schemas are compiled to programs first (``program``). The decoder reads the values in the
caller's memory, and does not copy them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError, OptionError
from kfetch.formats.avro import instructions as ops
from kfetch.formats.avro.aliases import renamed
from kfetch.formats.avro.matching import unknown_in_avro
from kfetch.formats.avro.program import ALLOWS_MORE, Program, compile_program
from kfetch.formats.avro.schema import AvroType, parse_avro
from kfetch.formats.avro.types import column_type
from kfetch.formats.columns.decoded import DecodedColumn, FormatLoop, LoopCall, Problem, alone
from kfetch.formats.columns.node_table import AT, REASON
from kfetch.formats.columns.struct_column import Plan, positions_of
from kfetch.formats.columns.types import ValueType
from kfetch.records.arrow import Array
from kfetch.records.memory import UNLIMITED, Memory

_REASONS = {
    ops.ENDS_EARLY: "the value ends inside it",
    ops.BAD_NUMBER: "its number is too long",
    ops.NEGATIVE: "its length is negative",
    ops.BAD_BRANCH: "its union has no such branch",
    ops.BAD_SYMBOL: "its enum has no such symbol",
    ops.LOST_SYMBOL: f"{ALLOWS_MORE}: the reader's enum lacks the symbol, and has no default",
    ops.BAD_DECIMAL: "its decimal has no digits or too many",
    ops.BAD_TIME: "its time is too far from 1970",
    ops.TOO_MANY: f"it has more than {ops.EMPTY_MAX} elements without bytes",
}

_LIST_OPS = (ops.LIST, ops.NEXT, ops.SKIP_LIST, ops.SKIP_NEXT)


class Programs:
    """The programs of some writers in one table. It never changes."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        tables, start = [], 0
        self.starts: list[int] = []
        """The first row of each program."""
        for program in programs:
            rows = program.rows.copy()
            rows[rows[:, ops.OP] == ops.JUMP, ops.A] += start
            rows[np.isin(rows[:, ops.OP], _LIST_OPS), ops.B] += start
            tables.append(rows)
            self.starts.append(start)
            start += len(rows)
        self.rows = np.concatenate(tables)

    def problem(self, state: array[int]) -> Problem:
        """Returns what the state of the loops says about the last corrupt record."""
        row, reason = state[ops.ROW], state[REASON]
        number = max(i for i, start in enumerate(self.starts) if start <= row)
        program = self._programs[number]
        path = program.paths[row - self.starts[number]]
        if reason == ops.UNRESOLVED:
            what = program.failures[int(self.rows[row, ops.A])]
        else:
            what = _REASONS[reason]
        where = f"field {path}: " if path else ""
        return Problem(f"{where}{what}", state[AT])


def _parsed(
    writer: str, reader: str, source: str, references: Sequence[str] = ()
) -> tuple[AvroType, AvroType, str]:
    """Returns both schemas, and the option of the reader's."""
    written = parse_avro(writer, source=source, references=references)
    if not reader:
        return written, written, source
    option = source.replace("Schema", "ReaderSchema")
    return written, parse_avro(reader, source=option), option


def reader_type(
    writer: str,
    *,
    reader: str = "",
    source: str = "valueSchema",
    references: Sequence[str] = (),
) -> ValueType:
    """Returns the type of the column. The arguments and errors are those of ``AvroDecoder``."""
    written, read, option = _parsed(writer, reader, source, references)
    kind = column_type(read, source=option)
    _program(written, read, Plan(kind), source)
    return kind


def _program(writer: AvroType, reader: AvroType, plan: Plan, source: str) -> Program:
    """Returns the program for a writer's schema. Raises OptionError if no record can be read."""
    try:
        matched = renamed(writer, reader)
        program = compile_program(matched, reader, plan, source=source)
    except OptionError:
        raise
    except KfetchError as cause:
        raise _does_not_fit(source, cause.message, "correct one of the schemas") from None
    if program.unreadable_because:
        raise _does_not_fit(source, program.unreadable_because, program.advice)
    return program._replace(unknown_fields=frozenset(unknown_in_avro(matched, reader)))


class AvroDecoder:
    """Decodes records of one reader's schema, in any number of threads."""

    def __init__(
        self,
        writer: str,
        loops: FormatLoop,
        *,
        reader: str = "",
        source: str = "valueSchema",
        references: Sequence[str] = (),
    ) -> None:
        """``writer``, ``reader``: schemas in JSON; without ``reader`` they are the same.

        ``loops``: the compiled code (``loading.load``). ``source``: the option with the
        writer's schema, for messages. ``references``: as in ``parse_avro``, for the writer's
        schema. Raises OptionError for schemas that do not fit each other, and NotBuilt for what
        kfetch lacks of Avro.
        """
        written, self._reader, reader_source = _parsed(writer, reader, source, references)
        self._plan = Plan(column_type(self._reader, source=reader_source))
        self._loops = loops
        self.row_bytes = self._plan.row_bytes
        """Bytes of a record without its text, if each list has one element."""
        own = _program(written, self._reader, self._plan, source)
        self._own = Programs([own])
        self._unknown_fields = own.unknown_fields

    def decode(
        self,
        data: memoryview | bytes,
        positions: Array,
        lengths: Array,
        memory: Memory = UNLIMITED,
        *,
        written: tuple[Programs, Array] | None = None,
    ) -> DecodedColumn:
        """Decodes values in ``data``. If a buffer is full, the column has fewer rows than values.

        ``positions``: int64, where each value starts. ``lengths``: int32, its bytes, below 0 for a
        null. The bytes must not change meanwhile. The result does not refer to them. ``written``:
        the programs of the values' writers, and for each value the first row of its program; None:
        all values have the decoder's own writer. Raises KfetchError if the values are too large for
        a column.
        """
        programs, starts = written or (self._own, np.zeros(len(positions), np.int32))
        return self._call(data, positions, lengths, memory, programs, starts).decoded()

    def _call(
        self,
        data: memoryview | bytes,
        positions: Array,
        lengths: Array,
        memory: Memory,
        programs: Programs,
        starts: Array,
    ) -> LoopCall:
        values = data, positions, lengths, memory
        counts = np.zeros(ops.LISTS_MAX + 1, np.int64)
        starts = np.ascontiguousarray(starts, np.int32)
        return LoopCall(self._loops, self._plan, *values, starts, programs.rows, counts)

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """Decodes the values of a binary column, as ``decode`` does."""
        return self.decode(*positions_of(column), memory)

    def problem(
        self,
        value: bytes | memoryview,
        memory: Memory = UNLIMITED,
        *,
        programs: Programs | None = None,
    ) -> Problem | None:
        """Returns why a value does not fit, and where; None if it fits.

        ``programs``: the first one is that of the value's writer. None: the decoder's own writer.
        """
        programs, start = programs or self._own, np.zeros(1, np.int32)
        return self._call(*alone(value), memory, programs, start).problem(programs.problem)

    def unknown_fields(self, _value: bytes) -> Iterable[str]:
        """Returns the writer's fields that the reader's schema lacks: the same for all values."""
        return self._unknown_fields

    def program(self, writer: str, references: Sequence[str], source: str) -> Program:
        """Returns the program of another writer. ``source``: what errors call its schema.

        Raises OptionError if the reader can't read any of its records, and NotBuilt for what kfetch
        lacks of Avro.
        """
        written = parse_avro(writer, source=source, references=references)
        return _program(written, self._reader, self._plan, source)


def _does_not_fit(source: str, why: str, advice: str) -> OptionError:
    return OptionError(
        f"the reader's schema can't read any record of {source}: {why}",
        action=advice,
        option=source,
    )
