"""The keys and values of a decoded batch as structs: those in JSON, Avro or Protobuf."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kfetch import value_loading
from kfetch.compiled.machine_code import Loop
from kfetch.decoding import decode_part
from kfetch.errors import MalformedValue
from kfetch.model import TopicPartition
from kfetch.options import AvroColumn, JsonColumn, ProtobufColumn, SourceOptions
from kfetch.options.values import TypedColumn
from kfetch.records import Columns, Memory, Slice
from kfetch.time_zones import find_zone, zone_named
from kfetch.values.avro_decoder import AvroDecoder, DecodedAvro
from kfetch.values.ddl import parse_schema
from kfetch.values.json_decoder import DecodedValues, JsonDecoder, JsonSettings
from kfetch.values.protobuf_decoder import DecodedMessages, ProtobufDecoder
from kfetch.values.times import Zones
from kfetch.values.wire_format import SchemaUnavailable

if TYPE_CHECKING:
    from kfetch.fetch.framed_values import Framed

__all__ = ["TypedValues", "column_decoder", "typed_values"]

Decoder = JsonDecoder | AvroDecoder | ProtobufDecoder

Place = tuple[TopicPartition, int]
"""A record's partition and offset."""

DECODERS_MAX = 8
"""Decoders that a process keeps. The key of one may hold two files of Protobuf types."""


class TypedValues:
    """Decodes the keys and values of batches. Several threads may use it."""

    def __init__(self, columns: Sequence[TypedColumn]) -> None:
        self._decoders = [_ColumnDecoder(column) for column in columns]
        self.row_bytes = sum(decoder.row_bytes for decoder in self._decoders)
        """Bytes that a row of all structs takes beside its text."""

    def typed(
        self,
        batch: pa.RecordBatch,
        memory: Memory,
        slices: Sequence[Slice],
        options: SourceOptions,
    ) -> pa.RecordBatch:
        """Returns a batch with structs in place of the bytes of its keys or values.

        ``slices`` and ``options``: what the batch was decoded from, and how.
        Raises MalformedValue for the first corrupt record of a column whose mode is FAILFAST.
        """
        for decoder in self._decoders:
            at = batch.schema.get_field_index(decoder.name)
            column = batch.column(at)
            try:
                decoded = decoder.decoded(column, memory)
            except SchemaUnavailable as failure:
                tp, offset = _place(slices, failure.row, options)
                what = f"the {decoder.name} of the record at offset {offset} of {tp}"
                raise failure.cause.behind(what) from None
            if decoder.fails and len(decoded.corrupt):
                row = int(decoded.corrupt[0])
                raise decoder.malformed(column[row].as_py(), *_place(slices, row, options))
            batch = batch.set_column(at, decoder.name, decoded.values)
            if decoder.flat:
                batch = _flattened(batch, at)
        return batch


def _flattened(batch: pa.RecordBatch, at: int) -> pa.RecordBatch:
    """Returns a batch with the fields of a struct column in its place, without a copy.

    Fields of a null struct are null already.
    """
    struct: Any = batch.column(at)
    pairs = list(zip(batch.schema, batch.columns, strict=True))
    pairs[at : at + 1] = [(field, struct.field(i)) for i, field in enumerate(struct.type)]
    schema = pa.schema([field for field, _ in pairs])
    return pa.RecordBatch.from_arrays([column for _, column in pairs], schema=schema)


class _ColumnDecoder:
    """Decodes one column."""

    def __init__(self, column: TypedColumn) -> None:
        self.name, self.flat = column.column, column.flat
        self.fails = column.mode == "failfast"
        """Whether a corrupt record is an error."""
        self._type_option = column.type_option
        self._decoder = column_decoder(column)
        self.row_bytes = self._decoder.row_bytes

    def decoded(
        self, column: pa.Array[Any], memory: Memory
    ) -> DecodedValues | DecodedAvro | DecodedMessages:
        return self._decoder.decode_column(column, memory)

    def malformed(self, value: bytes, tp: TopicPartition, offset: int) -> MalformedValue:
        """Returns the error for a corrupt record at a place."""
        problem, name = self._decoder.problem(value), self.name
        why = f"{problem.what}, at byte {problem.at}" if problem else "unknown"
        return MalformedValue(
            f"the {name} of the record at offset {offset} of {tp} does not fit "
            f"{self._type_option}: {why}",
            action=f"correct the producer or the schema, or set {name}Mode=PERMISSIVE",
            topic=tp.topic,
            partition=tp.partition,
            offset=offset,
        )


def _decoder_of(column: TypedColumn) -> JsonDecoder | AvroDecoder | ProtobufDecoder:
    loops = value_loading.load(column.format)
    if isinstance(column, AvroColumn):
        if column.registry:
            source, references = column.type_option, column.references
            return AvroDecoder(column.reader_schema, loops, source=source, references=references)
        source = f"{column.column}Schema"
        return AvroDecoder(column.schema, loops, reader=column.reader_schema, source=source)
    if isinstance(column, ProtobufColumn):
        return ProtobufDecoder(
            column.descriptors, column.message, loops, nullable=column.flat, column=column.column
        )
    return _json_decoder(column, loops)


def column_decoder(column: TypedColumn) -> Decoder | Framed:
    """Returns the decoder of a column's values, with or without headers of the wire format."""
    decoder = _decoder_of(column)
    if column.registry is None:
        return decoder
    from kfetch.fetch.framed_values import framed  # late: it imports HTTP and TLS

    return framed(decoder, column.registry.registry)


def _json_decoder(column: JsonColumn, loops: Loop) -> JsonDecoder:
    session = zone_named(column.time_zone or "UTC", option=column.zone_option)
    settings = JsonSettings(zones=Zones(session, find_zone))
    schema = parse_schema(column.schema, option=column.type_option)
    return JsonDecoder(schema, loops, settings)


def _place(slices: Sequence[Slice], row: int, options: SourceOptions) -> Place:
    """Returns the place of a row. The columns of its batch need not say it."""
    rest = slices
    while rest:
        batch, rest = decode_part(
            rest,
            columns=Columns(names=("topic", "partition", "offset")),
            check_crcs=options.fetch.check_crcs,
            on_corrupt=(lambda _: None) if options.skip_corrupt_batches else None,
        )
        if batch is not None and row < batch.num_rows:
            found = batch.slice(row, 1).to_pylist()[0]
            return TopicPartition(found["topic"], found["partition"]), found["offset"]
        row -= batch.num_rows if batch is not None else 0
    raise RuntimeError("the slices do not have this row")


_making: dict[tuple[str, ...], threading.Lock] = {}
"""A lock for each choice of formats."""


def typed_values(columns: tuple[TypedColumn, ...]) -> TypedValues:
    """Returns the decoder of some columns, which all readers share.

    Another thread that needs the same formats waits meanwhile. If they are loaded, no thread waits
    for the compilation of others.
    """
    formats = tuple(column.format for column in columns)
    with _making.setdefault(formats, threading.Lock()):
        return _typed_values(columns)


@lru_cache(maxsize=DECODERS_MAX)
def _typed_values(columns: tuple[TypedColumn, ...]) -> TypedValues:
    return TypedValues(columns)
