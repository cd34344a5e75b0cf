"""The decoder of Avro in Confluent's wire format: each value may have a writer of its own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError, OptionError
from kfetch.formats.avro.decoder import AvroDecoder, Programs
from kfetch.formats.avro.program import Program, failing_program
from kfetch.formats.columns.decoded import DecodedColumn, Problem
from kfetch.formats.registry.framing import SchemaCache, answer_for, bodies
from kfetch.formats.registry.headers import Headers, SchemaHeader, read_header
from kfetch.formats.registry.schemas import SchemaSource, SchemaUnknown
from kfetch.records.arrow import Array
from kfetch.records.memory import UNLIMITED, Memory

_Table = tuple[list[Program], Programs]

_ROWS_MAX = 1_000_000
"""Instructions that a decoder keeps, of 40 bytes each: those of writers, and those of tables."""
_OBJECT_ROWS = 50
"""What a program's or a table's objects take, as instructions."""


def _weight(rows: Array) -> int:
    return len(rows) + _OBJECT_ROWS


class FramedAvro:
    """Decodes Avro of many writers to one reader's schema."""

    def __init__(self, decoder: AvroDecoder, registry: SchemaSource) -> None:
        self._decoder, self._registry = decoder, registry
        self.row_bytes = decoder.row_bytes
        self._programs = SchemaCache[Program](_ROWS_MAX, lambda program: _weight(program.rows))
        self._tables = SchemaCache[_Table](_ROWS_MAX, lambda table: _weight(table[1].rows))

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """See AvroDecoder. Raises SchemaUnavailable, too."""
        data, positions, lengths, headers = bodies(column, indexed=False)
        programs = self._programs_of(headers, memory)
        starts = np.array([*programs.starts, 0], np.int32)[headers.which]
        return self._decoder.decode(data, positions, lengths, memory, written=(programs, starts))

    def problem(self, value: bytes, memory: Memory = UNLIMITED) -> Problem | None:
        """Returns why a value does not fit, and where; None if it fits."""
        header = read_header(value, indexed=False)
        programs = Programs([self._program(header, memory)])
        found = self._decoder.problem(value[header.size :], memory, programs=programs)
        if found is None:
            return None
        return Problem(found.what, found.at + (header.at if header.damage else header.size))

    def unknown_fields(self, value: bytes) -> Iterable[str]:
        """Returns the fields of its writer that the reader's schema lacks."""
        with suppress(KfetchError):  # a sample is no reason to fail
            return self._program(read_header(value, indexed=False)).unknown_fields
        return ()

    def _programs_of(self, headers: Headers, memory: Memory) -> Programs:
        """Returns the programs of all headers of a batch, in their order."""
        programs = [
            answer_for(headers, number, partial(self._program, header, memory))
            for number, header in enumerate(headers.distinct)
        ] or [failing_program("")]
        if not any(program.unreadable_because for program in programs):
            # A table keeps its programs alive, so their ids stay theirs. A failing program
            # may be a new object in each batch, so a table with one would not be found again.
            key = tuple(map(id, programs))
            return self._tables.get(key, lambda: (programs, Programs(programs)))[1]
        return Programs(programs)

    def _program(self, header: SchemaHeader, memory: Memory = UNLIMITED) -> Program:
        if header.damage:
            return failing_program(header.damage)
        try:
            return self._programs.get(header.id, lambda: self._compiled(header.id, memory))
        except SchemaUnknown as refusal:
            return failing_program(str(refusal))

    def _compiled(self, number: int, memory: Memory) -> Program:
        source = f"schema {number} of the registry"
        with memory.idle():
            schema = self._registry.by_id(number)
        if schema.kind != "AVRO":
            return failing_program(f"{source} is of type {schema.kind}, not AVRO")
        try:
            return self._decoder.program(schema.text, schema.references, source)
        except OptionError as cause:
            return failing_program(cause.what)
