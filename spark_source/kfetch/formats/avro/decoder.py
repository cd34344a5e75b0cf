"""Decodes the Avro values of many records into one column, with the meaning of ``from_avro``.

The schemas are compiled to programs first (``program``). The positions of the records point
into the memory of the caller, which is not copied.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError, OptionError
from kfetch.formats.avro import layout as ops
from kfetch.formats.avro.aliases import renamed
from kfetch.formats.avro.matching import unknown_in_avro
from kfetch.formats.avro.program import ALLOWS_MORE, Program, compile_program
from kfetch.formats.avro.schema import AvroType, parse_avro
from kfetch.formats.avro.types import column_type
from kfetch.formats.columns.decoded import DecodedColumn, FormatLoop, LoopCall, Problem
from kfetch.formats.columns.struct_column import Plan, positions_of, too_large
from kfetch.formats.columns.types import ValueType
from kfetch.records.arrow import Array
from kfetch.records.codecs import address_of
from kfetch.records.memory import UNLIMITED, Memory

_REASONS = {
    ops.ENDS_EARLY: "the value ends inside it",
    ops.BAD_NUMBER: "its number is too long",
    ops.NEGATIVE: "its length is negative",
    ops.BAD_BRANCH: "its union has no such branch",
    ops.BAD_SYMBOL: "its enum has no such symbol",
    ops.LOST_SYMBOL: f"{ALLOWS_MORE}: that one's enum lacks the symbol, and has no default",
    ops.BAD_DECIMAL: "its decimal has no digits or too many",
    ops.BAD_TIME: "its time is too far from 1970",
    ops.TOO_MANY: f"it has more than {ops.EMPTY_MAX} elements without bytes",
}


class Programs:
    """The programs of some writers in one table. It never changes."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        tables, start = [], 0
        self.starts: list[int] = []
        """The first row of each program."""
        for program in programs:
            rows = program.rows.copy()
            targets = np.isin(rows[:, ops.OP], (ops.JUMP,))
            rows[targets, ops.A] += start
            lists = np.isin(rows[:, ops.OP], (ops.LIST, ops.NEXT, ops.SKIP_LIST, ops.SKIP_NEXT))
            rows[lists, ops.B] += start
            tables.append(rows)
            self.starts.append(start)
            start += len(rows)
        self.rows = np.ascontiguousarray(np.concatenate(tables))

    def problem(self, state: array[int], shift: int = 0) -> Problem:
        """Returns what the state of the loops says about the last corrupt record."""
        row, reason = state[ops.ROW], state[ops.REASON]
        number = max(i for i, start in enumerate(self.starts) if start <= row)
        program = self._programs[number]
        path = program.paths[row - self.starts[number]]
        if reason == ops.UNRESOLVED:
            what = program.failures[int(self.rows[row, ops.A])]
        else:
            what = _REASONS[reason]
        where = f"field {path}: " if path else ""
        return Problem(f"{where}{what}", state[ops.AT] + shift)


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
        made = compile_program(matched, reader, plan, source=source)
    except OptionError:
        raise
    except KfetchError as cause:
        raise _does_not_fit(source, cause.message, "correct one of the schemas") from None
    if made.unconditional:
        raise _does_not_fit(source, made.unconditional, made.advice)
    return made._replace(unread=frozenset(unknown_in_avro(matched, reader)))


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
        schema. Raises OptionError for schemas that do not fit each other, and NotBuilt.
        """
        written, self._reader, reader_source = _parsed(writer, reader, source, references)
        self._plan = Plan(column_type(self._reader, source=reader_source))
        self._loops = loops
        own = _program(written, self._reader, self._plan, source)
        self._own = Programs([own])
        self._unread = own.unread

    def decode(
        self,
        data: memoryview | bytes,
        positions: Array,
        lengths: Array,
        memory: Memory = UNLIMITED,
        *,
        written: tuple[Programs, Array] | None = None,
    ) -> DecodedColumn:
        """Returns the column of values that lie in ``data``, and of fewer if a part is full.

        ``positions``: int64, where each value starts. ``lengths``: int32, its bytes, below 0 for a
        null. The bytes must not change meanwhile. The result does not refer to them. ``written``:
        the programs of the values' writers, and the row of them where each value's program starts;
        None: all values are of the decoder's own writer.
        Raises KfetchError for more bytes of values than a column can hold.
        """
        programs, starts = written or (self._own, np.zeros(len(positions), np.int32))
        run = _AvroRun(self, programs, data, positions, lengths, starts, memory)
        return run.decoded()

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """Returns the same for the values of a binary column."""
        return self.decode(*positions_of(column), memory)

    def problem(
        self,
        value: bytes | memoryview,
        memory: Memory = UNLIMITED,
        *,
        programs: Programs | None = None,
    ) -> Problem | None:
        """Returns why a value does not fit, and where; None if it fits.

        ``programs``: its writer's program comes first there; None: it is of the own writer.
        """
        programs, one = programs or self._own, np.zeros(1, np.int64)
        lengths, starts = np.full(1, len(value), np.int32), np.zeros(1, np.int32)
        run = _AvroRun(self, programs, value, one, lengths, starts, memory)
        if not len(run.corrupt_records()):
            return None
        return Problem(too_large(len(value)), 0) if run.refused else programs.problem(run.state)

    def unknown_fields(self, _value: bytes) -> Iterable[str]:
        """Returns the writer's fields that the reader's schema lacks: the same for all values."""
        return self._unread

    def program(self, writer: str, references: Sequence[str], source: str) -> Program:
        """Returns the program of another writer. ``source``: its name, for errors.

        Raises OptionError if the reader can't read any of its records, and NotBuilt.
        """
        written = parse_avro(writer, source=source, references=references)
        return _program(written, self._reader, self._plan, source)

    @property
    def plan(self) -> Plan:
        """The nodes of the column."""
        return self._plan

    @property
    def row_bytes(self) -> int:
        """Bytes that a record takes beside its text."""
        return self._plan.row_bytes

    @property
    def loops(self) -> FormatLoop:
        """The compiled code."""
        return self._loops


def _does_not_fit(source: str, why: str, advice: str) -> OptionError:
    return OptionError(
        f"the reader's schema can't read any record of {source}: {why}",
        action=advice,
        option=source,
    )


class _AvroRun(LoopCall):
    """One call of ``decode``."""

    def __init__(
        self,
        decoder: AvroDecoder,
        programs: Programs,
        data: Any,
        positions: Array,
        lengths: Array,
        starts: Array,
        memory: Memory,
    ) -> None:
        self._decoder = decoder
        self._programs = programs
        self._view = pa.py_buffer(memoryview(data))
        self._numbers = (
            np.ascontiguousarray(positions, np.int64),
            np.ascontiguousarray(lengths, np.int32),
            np.ascontiguousarray(starts, np.int32),
        )
        self._check_places()
        super().__init__(decoder.plan, self._numbers[1], memory, state_width=ops.STATE_WIDTH)
        self._counts = np.zeros(ops.LISTS_MAX + 1, np.int64)
        self.state[ops.NODE_COUNT] = len(decoder.plan.types)

    def _check_places(self) -> None:
        positions, lengths, _ = self._numbers
        ends = positions + lengths.clip(0)
        if len(positions) and (positions.min() < 0 or ends.max() > self._view.size):
            raise KfetchError("a value lies outside the memory of its batch")

    def decode(self) -> None:
        state_address = self.state.buffer_info()[0]
        decoder, column = self._decoder, self.column
        tables: list[Array] = [self._programs.rows, column.table, decoder.plan.flat_nodes]
        while True:
            result = decoder.loops(
                self._view.address,
                self._view.size,
                *(address_of(numbers) for numbers in self._numbers),
                len(self._numbers[0]),
                *(address_of(table) for table in tables),
                state_address,
                address_of(self.corrupt),
                address_of(self._counts),
            )
            if result == ops.DONE:
                return
            if result == ops.LARGE:
                raise KfetchError(
                    "the decoded values have more text or elements than an Arrow batch holds: "
                    "lower kafka.max.partition.fetch.bytes"
                )
            record = self.state[ops.RECORD]
            if not column.grow(self.state[ops.STUCK_NODE], int(self._numbers[1][record])):
                self._refuse(record)

    def _refuse(self, record: int) -> None:
        """Makes a record corrupt: one without bytes ends early, because it has text or lists."""
        positions, lengths, starts = self._numbers
        lengths = lengths.copy()  # it may be the caller's
        lengths[record] = 0
        self._numbers = positions, lengths, starts
        self.refused = True
