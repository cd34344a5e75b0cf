"""The keys and values of a decoded batch as structs: those in JSON, Avro or Protobuf."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kfetch.compiled.machine_code import Loop
from kfetch.errors import MalformedValue
from kfetch.fetch import dead_letters, events
from kfetch.fetch.dead_letters import Misfits, Reason
from kfetch.fetch.drift import FieldWatch, sample
from kfetch.fetch.kinds import printable
from kfetch.fetch.places import Place, places
from kfetch.formats import loading
from kfetch.formats.avro.decoder import AvroDecoder
from kfetch.formats.columns.ddl import parse_schema
from kfetch.formats.columns.decoded import DecodedColumn
from kfetch.formats.json.decoder import JsonDecoder, JsonSettings
from kfetch.formats.json.time_zones import find_zone, zone_named
from kfetch.formats.json.times import Zones
from kfetch.formats.protobuf.decoder import ProtobufDecoder
from kfetch.formats.registry.headers import SchemaUnavailable
from kfetch.options import AvroColumn, JsonColumn, ProtobufColumn, SourceOptions
from kfetch.options.columns import DEAD_LETTER
from kfetch.options.values import TypedColumn
from kfetch.records import Memory, Slice
from kfetch.records.memory import Part

if TYPE_CHECKING:
    from kfetch.fetch.framed_values import Framed

__all__ = ["TypedValues", "column_decoder", "typed_values"]

Decoder = JsonDecoder | AvroDecoder | ProtobufDecoder

DECODERS_MAX = 8
"""Decoders that a process keeps. The key of one may hold two files of Protobuf types."""
_WATCHES_MAX = 64


class TypedValues:
    """Decodes the keys and values of batches. Several threads may use it."""

    def __init__(self, columns: Sequence[TypedColumn]) -> None:
        self._decoders = [_ColumnDecoder(column) for column in columns]
        self._row_bytes = sum(decoder.row_bytes for decoder in self._decoders)
        self._watches: OrderedDict[Hashable, FieldWatch] = OrderedDict()
        """Those of the last queries, by their topics."""
        self._lock = threading.Lock()

    def row_bytes(self, options: SourceOptions) -> int:
        """Returns the bytes that a row of all structs takes beside its text."""
        return self._row_bytes + (dead_letters.ROW_BYTES if options.dead_letters else 0)

    def typed(
        self,
        batch: pa.RecordBatch,
        memory: Memory,
        slices: Sequence[Slice],
        options: SourceOptions,
        on_event: events.EventHandler = events.log_event,
    ) -> pa.RecordBatch:
        """Returns a batch with structs in place of the bytes of its keys or values.

        It has fewer rows if their columns fill a part of ``memory``. The first row always fits.
        With ``deadLetters=column``, it has that column, too. ``slices`` and ``options``: what the
        batch was decoded from, and how. ``on_event`` gets the records that can't be decoded.
        Raises MalformedValue for the first corrupt record of a column whose mode is FAILFAST.
        """
        misfits = Misfits(all_reasons=options.dead_letters)

        def place_of(row: int) -> Place:
            return next(places(slices, [row], options, memory))

        results = []
        for decoder in self._decoders:
            results.append(decoder.decoded(batch.column(decoder.name), memory, place_of))
            batch = batch.slice(0, len(results[-1].values))
        for decoder, result in zip(self._decoders, results, strict=True):
            corrupt = result.corrupt[result.corrupt < batch.num_rows]
            if len(corrupt):
                reason = partial(decoder.reason, batch.column(decoder.name), memory)
                if decoder.fails:
                    row = int(corrupt[0])
                    raise decoder.malformed(reason(row), place_of(row))
                misfits.add(corrupt, reason)
        decoded = [result.values.slice(0, batch.num_rows) for result in results]
        self._sample(batch, slices, options, on_event)
        if misfits.kinds:
            for topic, kind, records in dead_letters.counts(
                misfits, batch, slices, options, memory
            ):
                on_event(events.Undecoded(topic=topic, kind=kind, records=records))
        return self._with_columns(batch, decoded, misfits, memory, options)

    def _sample(
        self,
        batch: pa.RecordBatch,
        slices: Sequence[Slice],
        options: SourceOptions,
        on_event: events.EventHandler,
    ) -> None:
        """Looks for unknown fields, if it is time for that."""
        watch = self._watch(options)
        if watch.takes_sample():
            found = sample([one.sampled(batch) for one in self._decoders], slices)
            watch.add(found)
            on_event(found)

    def _watch(self, options: SourceOptions) -> FieldWatch:
        key = options.bootstrap, options.subscription
        with self._lock:
            watch = self._watches.setdefault(key, FieldWatch())
            if len(self._watches) > _WATCHES_MAX:
                self._watches.popitem(last=False)
        return watch

    def _with_columns(
        self,
        batch: pa.RecordBatch,
        decoded: Sequence[Any],
        misfits: Misfits,
        memory: Memory,
        options: SourceOptions,
    ) -> pa.RecordBatch:
        """Returns the batch with the decoded columns and that of dead letters."""
        letters = dead_letters.column_of(misfits, batch, memory) if options.dead_letters else None
        for decoder, values in zip(self._decoders, decoded, strict=True):
            at = batch.schema.get_field_index(decoder.name)
            batch = batch.set_column(at, decoder.name, values)
        if letters is not None:
            names = [column.name for column in options.delivered]
            batch = batch.add_column(names.index(DEAD_LETTER), DEAD_LETTER, letters)
        for decoder in self._decoders:
            if decoder.flat:
                batch = _flattened(batch, batch.schema.get_field_index(decoder.name))
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

    def sampled(self, batch: pa.RecordBatch) -> tuple[str, Any, Any]:
        """Returns what a sample needs of the column."""
        return self.name, self._decoder, batch.column(self.name)

    def decoded(
        self, column: pa.Array[Any], memory: Memory, place_of: Callable[[int], Place]
    ) -> DecodedColumn:
        """Returns the column. The error of a registry names the record that needs its answer."""
        try:
            return self._decoder.decode_column(column, memory)
        except SchemaUnavailable as failure:
            tp, offset = place_of(failure.row)
            what = f"the {self.name} of the record at offset {offset} of {tp}"
            raise failure.cause.behind(what) from None

    def reason(self, column: Any, memory: Memory, row: int) -> Reason:
        """Returns why the value in a row of a binary column is corrupt."""
        part, value = Part(memory), column[row].as_py()
        part.reserve(len(value))
        problem = self._decoder.problem(value, part)
        part.abandon()
        what, at = (problem.what, f", at byte {problem.at}") if problem else ("unknown", "")
        what = printable(what)
        sentence = f"the {self.name} does not fit {self._type_option}: {what}{at}"
        return Reason(f"{self.name}: {what}", sentence)

    def malformed(self, reason: Reason, place: Place) -> MalformedValue:
        """Returns the error for a corrupt record at a place."""
        (tp, offset), name = place, self.name
        why = reason.sentence.removeprefix(f"the {name} ")
        return MalformedValue(
            f"the {name} of the record at offset {offset} of {tp} {why}",
            action=f"correct the producer or the schema, or set {name}Mode=PERMISSIVE",
            topic=tp.topic,
            partition=tp.partition,
            offset=offset,
        )


def _decoder_of(column: TypedColumn) -> JsonDecoder | AvroDecoder | ProtobufDecoder:
    loops = loading.load(column.format)
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
