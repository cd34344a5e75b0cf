"""The keys and values of a decoded batch as structs: those in JSON, Avro or Protobuf."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa

from kfetch.errors import MalformedValue
from kfetch.formats import dead_letters, loading
from kfetch.formats.columns.decoded import DecodedColumn, ValueDecoder
from kfetch.formats.columns.struct_column import positions_of
from kfetch.formats.dead_letters import Misfits, Reason
from kfetch.formats.drift import Drift, FieldWatch, sample
from kfetch.formats.format import format_of
from kfetch.formats.places import RecordPlace, places, slices_from
from kfetch.formats.registry.headers import SchemaUnavailable
from kfetch.options import SourceOptions
from kfetch.options.columns import DEAD_LETTER
from kfetch.options.formats import TypedColumn
from kfetch.records import Memory, Slice
from kfetch.records.memory import Part
from kfetch.topic_counts import printable

DECODERS_MAX = 8
"""Decoders that a process keeps. The key of one may hold two files of Protobuf types."""
_WATCHES_MAX = 64


class TypedPart(NamedTuple):
    """A batch with structs in place of the bytes of its keys or values."""

    batch: pa.RecordBatch
    remaining: tuple[Slice, ...]
    """What is left to decode."""
    undecoded: Sequence[tuple[str, str, int]]
    """Topic, kind and number of the records that can't be decoded."""
    drift: Drift | None
    """Unknown fields of a sample; None for a batch that no sample is taken of."""


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
        remaining: tuple[Slice, ...],
        memory: Memory,
        slices: Sequence[Slice],
        options: SourceOptions,
    ) -> TypedPart:
        """Returns a batch with structs in place of the bytes of its keys or values.

        It has fewer rows if their columns fill a part of ``memory``. The first row always fits.
        With ``deadLetters=column``, it has that column, too. ``slices`` and ``options``: what the
        batch was decoded from, and how. ``remaining``: the slices that are left.
        Raises MalformedValue for the first corrupt record of a column whose mode is FAILFAST.
        """
        misfits = Misfits(all_reasons=options.dead_letters)
        rows = batch.num_rows

        def place_of(row: int) -> RecordPlace:
            return next(places(slices, [row], options, memory))

        results = []
        for decoder in self._decoders:
            results.append(decoder.decoded(batch.column(decoder.name), memory, place_of))
            batch = batch.slice(0, len(results[-1].values))
        for decoder, result in zip(self._decoders, results, strict=True):
            corrupt = result.corrupt[result.corrupt < batch.num_rows]
            if len(corrupt):
                column = batch.column(decoder.name)
                reason = partial(decoder.reason, column, memory)
                if decoder.fails:
                    row = int(corrupt[0])
                    raise decoder.malformed(reason(row), place_of(row))
                misfits.add(corrupt, positions_of(column)[2][corrupt], reason)
        decoded = [result.values.slice(0, batch.num_rows) for result in results]
        drift = self._sample(batch, slices, options)
        undecoded = tuple(dead_letters.counts(misfits, batch, slices, options, memory))
        batch = self._with_columns(batch, decoded, misfits, memory, options)
        if batch.num_rows < rows:
            remaining = slices_from(slices, batch.num_rows, options, memory)
        return TypedPart(batch, remaining, undecoded, drift)

    def _sample(
        self, batch: pa.RecordBatch, slices: Sequence[Slice], options: SourceOptions
    ) -> Drift | None:
        """Looks for unknown fields, if it is time for that."""
        watch = self._watch(options)
        if not watch.takes_sample():
            return None
        found = sample([one.sampled(batch) for one in self._decoders], slices)
        watch.add(found)
        return found

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
        self, column: pa.Array[Any], memory: Memory, place_of: Callable[[int], RecordPlace]
    ) -> DecodedColumn:
        """Returns the column. The error of a registry names the record that needs its answer."""
        try:
            return self._decoder.decode_column(column, memory)
        except SchemaUnavailable as failure:
            tp, offset = place_of(failure.row)
            what = f"the {self.name} of the record at offset {offset} of {tp}"
            raise failure.cause.prefixed(what) from None

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

    def malformed(self, reason: Reason, place: RecordPlace) -> MalformedValue:
        """Returns the error for a corrupt record at a place."""
        (tp, offset), name = place, self.name
        why = reason.sentence.removeprefix(f"the {name} ")
        return MalformedValue(
            f"the {name} of the record at offset {offset} of {tp} {why}",
            action=f"correct the producer or the schema, or set {name}Mode=PERMISSIVE",
            **tp._asdict(),
            offset=offset,
        )


def column_decoder(column: TypedColumn) -> ValueDecoder:
    """Returns the decoder of a column's values, with or without headers of the wire format."""
    its_format = format_of(column.format)
    decoder = its_format.decoder(column, loading.load(column.format))
    if column.registry is None:
        return decoder
    from kfetch.formats.registry.client import registry_of  # late: it imports HTTP and TLS

    return its_format.framed(decoder, registry_of(column.registry.registry))


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
