"""Decoders of values in Confluent's wire format: behind a header that names the writer's schema.

Each one has the interface of the decoder of its format. The registry is asked on the first sight of
an id. A registry that does not answer is an error, and never makes values null.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from kfetch.errors import KfetchError, OptionError
from kfetch.formats.avro.decoder import AvroDecoder, Programs
from kfetch.formats.avro.program import Program, failing_program
from kfetch.formats.columns.decoded import DecodedColumn, Problem
from kfetch.formats.columns.struct_column import positions_of
from kfetch.formats.json.decoder import JsonDecoder
from kfetch.formats.protobuf.decoder import ProtobufDecoder
from kfetch.formats.protobuf.fields import Damaged
from kfetch.formats.protobuf.names import message_at, serialized_file
from kfetch.formats.registry.client import Registry, Schema, SchemaUnknown, registry_of
from kfetch.formats.registry.headers import (
    Header,
    Headers,
    SchemaUnavailable,
    read_header,
    read_headers,
)
from kfetch.options.registry import RegistryOptions
from kfetch.records.memory import UNLIMITED, Memory

__all__ = ["Framed", "FramedAvro", "FramedJson", "FramedProtobuf", "framed"]

Array = np.ndarray[Any, Any]
V = TypeVar("V")
_Table = tuple[list[Program], Programs]

_SCHEMAS_MAX = 2_000
"""Headers whose messages a decoder keeps."""
_ROWS_MAX = 1_000_000
"""Instructions that a decoder keeps, of 40 bytes each: those of writers, and those of tables."""
_OBJECT_ROWS = 50
"""What a program's or a table's objects take, as instructions."""
_NO_JSON = b"}"
"""A document that is corrupt for sure."""


class _Kept(Generic[V]):
    """What a decoder knows about schemas: the values that were used last, up to a weight."""

    def __init__(self, limit: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._limit, self._weigh = limit, weigh
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Returns the value of a key. Two threads may make one at the same time."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._lock:
            if key in self._values:
                return self._values[key]
            self._values[key] = made
            self._weight += self._weigh(made)
            while self._weight > self._limit and len(self._values) > 1:
                _, oldest = self._values.popitem(last=False)
                self._weight -= self._weigh(oldest)
        return made


def _weight(rows: Array) -> int:
    return len(rows) + _OBJECT_ROWS


def _with_place(headers: Headers, number: int, ask: Callable[[], Any]) -> Any:
    """Returns what the registry says. Raises SchemaUnavailable with the first value of a header."""
    try:
        return ask()
    except KfetchError as cause:
        raise SchemaUnavailable(int(np.argmax(headers.which == number)), cause) from None


class _Behind(NamedTuple):
    """Where values start behind their headers."""

    data: memoryview
    positions: Array
    lengths: Array
    headers: Headers


def _behind(column: pa.Array[Any], *, indexed: bool) -> _Behind:
    data, positions, lengths = positions_of(column)
    headers = read_headers(data, positions, lengths, indexed=indexed)
    sizes = headers.sizes[headers.which]
    return _Behind(data, positions + sizes, lengths - sizes, headers)


class FramedAvro:
    """Decodes Avro of many writers to one reader's schema."""

    def __init__(self, decoder: AvroDecoder, registry: Registry) -> None:
        self._decoder, self._registry = decoder, registry
        self.row_bytes = decoder.row_bytes
        self._programs = _Kept[Program](_ROWS_MAX, lambda program: _weight(program.rows))
        self._tables = _Kept[_Table](_ROWS_MAX, lambda table: _weight(table[1].rows))

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """See AvroDecoder. Raises SchemaUnavailable, too."""
        data, positions, lengths, headers = _behind(column, indexed=False)
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
            return self._program(read_header(value, indexed=False)).unread
        return ()

    def _programs_of(self, headers: Headers, memory: Memory) -> Programs:
        """Returns the programs of all headers of a batch, in their order."""
        made = [
            _with_place(headers, number, partial(self._program, header, memory))
            for number, header in enumerate(headers.distinct)
        ] or [failing_program("")]
        if not any(program.unconditional for program in made):
            # Failing programs are made anew. A table keeps its programs, so their ids stay theirs.
            key = tuple(map(id, made))
            return self._tables.get(key, lambda: (made, Programs(made)))[1]
        return Programs(made)

    def _program(self, header: Header, memory: Memory = UNLIMITED) -> Program:
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


class FramedProtobuf:
    """Decodes messages of one type, whose writers may have older or newer files."""

    def __init__(self, decoder: ProtobufDecoder, registry: Registry) -> None:
        self._decoder, self._registry = decoder, registry
        self.row_bytes = decoder.row_bytes
        self._refusals = _Kept[str](_SCHEMAS_MAX)

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """See ProtobufDecoder. Raises SchemaUnavailable, too."""
        data, positions, lengths, headers = _behind(column, indexed=True)
        refusals = [
            _with_place(headers, number, partial(self._refusal, header, memory))
            for number, header in enumerate(headers.distinct)
        ]
        if not any(refusals):
            return self._decoder.decode(data, positions, lengths, memory)
        refused = np.array([*map(bool, refusals), False])[headers.which]
        decoded = self._decoder.decode(data, positions, np.where(refused, -1, lengths), memory)
        corrupt = np.union1d(decoded.corrupt, np.flatnonzero(refused)).astype(np.int32)
        return decoded._replace(corrupt=corrupt)

    def problem(self, value: bytes, memory: Memory = UNLIMITED) -> Problem | None:
        """Returns why a value can't be decoded, and where; None if it can."""
        header = read_header(value, indexed=True)
        refusal = self._refusal(header, memory)
        if refusal:
            return Problem(refusal, header.at)
        found = self._decoder.problem(value[header.size :], memory)
        return Problem(found.what, found.at + header.size) if found else None

    def unknown_fields(self, value: bytes) -> Iterable[str]:
        """Returns the numbers of the fields that the reader's message lacks."""
        return self._decoder.unknown_fields(_body(value, indexed=True))

    def _refusal(self, header: Header, memory: Memory) -> str:
        """Returns why values with a header can't be decoded; empty if they can."""
        if header.damage:
            return header.damage
        try:
            return self._refusals.get(
                (header.id, header.indexes),
                lambda: self._checked(header.id, header.indexes, memory),
            )
        except SchemaUnknown as unknown:
            return str(unknown)

    def _checked(self, number: int, indexes: Sequence[int], memory: Memory) -> str:
        source = f"schema {number}"
        with memory.idle():
            schema = self._registry.by_id(number, form="serialized")
        if schema.kind != "PROTOBUF":
            return f"{source} of the registry is of type {schema.kind}, not PROTOBUF"
        try:
            name = message_at(file_of(schema, self._registry), indexes)
        except Damaged as damage:
            return f"{source} of the registry is damaged: {damage}"
        if not name:
            return f"{source} of the registry has no message at {list(indexes)}"
        if name == self._decoder.full_name:
            return ""
        return f"it is a message {name}, and the query reads {self._decoder.full_name}"


def file_of(schema: Schema, registry: Registry) -> bytes:
    """Returns the FileDescriptorProto of a Protobuf schema.

    Raises OptionError if the registry gives only the text of a .proto file.
    """
    file = serialized_file(schema.text)
    if file is None:
        raise OptionError(
            f"the schema registry {registry.name} gives schema {schema.id} only as the text of a "
            ".proto file, and kfetch needs its descriptors (?format=serialized)",
            action="use a registry that has them; docs/how-to/schema-registry.md names some",
        )
    return file


class FramedJson:
    """Decodes JSON behind a header. The writer's schema has no meaning for it."""

    def __init__(self, decoder: JsonDecoder) -> None:
        self._decoder = decoder
        self.row_bytes = decoder.row_bytes

    def decode_column(self, column: pa.Array[Any], memory: Memory = UNLIMITED) -> DecodedColumn:
        """See JsonDecoder. A value without a header is corrupt."""
        data, positions, lengths, headers = _behind(column, indexed=False)
        damaged = np.array([*(bool(each.damage) for each in headers.distinct), False])
        if not damaged.any():
            return self._decoder.decode(data, positions, lengths, memory)
        bad = damaged[headers.which]
        memory.reserve(len(data) + 1)
        whole = memoryview(bytes(data) + _NO_JSON)
        starts, sizes = np.where(bad, len(data), positions), np.where(bad, 1, lengths)
        texts = positions, lengths
        return self._decoder.decode(whole, starts, sizes, memory, texts=texts)

    def problem(self, value: bytes, memory: Memory = UNLIMITED) -> Problem | None:
        """Returns why a value is corrupt, and where; None if it is not."""
        header = read_header(value, indexed=False)
        if header.damage:
            return Problem(header.damage, header.at)
        found = self._decoder.problem(value[header.size :], memory)
        return Problem(found.what, found.at + header.size) if found else None

    def unknown_fields(self, value: bytes) -> Iterable[str]:
        """Returns the fields that the schema lacks."""
        return self._decoder.unknown_fields(_body(value, indexed=False))


def _body(value: bytes, *, indexed: bool) -> bytes:
    """Returns what is behind the header; nothing behind a damaged one."""
    header = read_header(value, indexed=indexed)
    return b"" if header.damage else value[header.size :]


Framed = FramedAvro | FramedProtobuf | FramedJson


def framed(
    decoder: AvroDecoder | ProtobufDecoder | JsonDecoder, registry: RegistryOptions
) -> Framed:
    """Returns the decoder of the same column for values in Confluent's wire format."""
    if isinstance(decoder, AvroDecoder):
        return FramedAvro(decoder, registry_of(registry))
    if isinstance(decoder, ProtobufDecoder):
        return FramedProtobuf(decoder, registry_of(registry))
    return FramedJson(decoder)
