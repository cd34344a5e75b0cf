"""Decodes the slices of one task, part by part, into Arrow batches with the columns of its query.

A part is as much as one batch may hold. It counts what it decodes, skips and can't decode.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import pyarrow as pa

from kfetch import decoding
from kfetch.errors import CorruptBatch
from kfetch.fetch.totals import Totals
from kfetch.formats import face
from kfetch.options import SourceOptions
from kfetch.options.columns import DEAD_LETTER
from kfetch.records import Columns, Memory, Slice

log = logging.getLogger(__name__)


class PartDecoder:
    """The decoder of one task. ``load`` comes first."""

    def __init__(self, options: SourceOptions, totals: Totals) -> None:
        self._options = options
        self._totals = totals
        self._columns = record_columns(options)
        self._values: face.TypedValues | None = None
        self._skipped: set[tuple[str, int, int]] = set()

    def load(self) -> None:
        """Load or compile what decodes. This may take longer than a poll timeout."""
        decoding.load_decoder()
        if self._options.typed_columns:
            self._values = face.typed_values(self._options.typed_columns)
            row_bytes = self._values.row_bytes(self._options)
            self._columns = self._columns._replace(typed_bytes=row_bytes)

    def decode(
        self, slices: Sequence[Slice], memory: Memory
    ) -> tuple[pa.RecordBatch | None, Sequence[Slice]]:
        """Returns a batch, and the slices that are left. Raises KfetchError."""
        began = time.monotonic()
        batch, remaining = decoding.decode_part(
            slices,
            columns=self._columns,
            check_crcs=self._options.fetch.check_crcs,
            on_corrupt=self._skip if self._options.skip_corrupt_batches else None,
            memory=memory,
        )
        if batch is not None and self._values is not None:
            typed = self._values.typed(batch, remaining, memory, slices, self._options)
            batch, remaining = typed.batch, typed.remaining
            self._report(typed)
        records = batch.num_rows if batch is not None else 0
        size, seconds = _size(slices) - _size(remaining), time.monotonic() - began
        self._totals.add(records=records, decode_s=seconds)
        log.debug("%d records of %d bytes decoded in %.1f ms", records, size, seconds * 1000)
        return batch, remaining

    def _report(self, typed: face.TypedPart) -> None:
        if drift := typed.drift:
            fields = {drift.topic: drift.fields} if drift.fields else {}
            self._totals.add(sampled=drift.sampled, unknown_fields=fields)
            names = ", ".join(drift.fields) or "none"
            log.debug("%s: unknown fields of %d values: %s", drift.topic, drift.sampled, names)
        for topic, kind, records in typed.undecoded:
            self._totals.add(undecoded=records, undecoded_kinds={topic: {kind: records}})
            log.debug("%s: %d records could not be decoded: %s", topic, records, kind)

    def _skip(self, error: CorruptBatch) -> None:
        """Log and count a damaged batch that the decoder skips, once: two parts may meet it."""
        place = error.topic, error.partition, error.base_offset
        if place in self._skipped:
            return
        self._skipped.add(place)
        log.warning("skipped a damaged batch, its records are lost: %s", error.message)
        self._totals.add(batches_skipped=1)


def record_columns(options: SourceOptions) -> Columns:
    """Returns the columns of a query without that of dead letters, which follows from them."""
    includes = options.includes
    return Columns(
        headers=includes.headers,
        headers_as_map=includes.headers_as_map,
        leader_epoch=includes.leader_epoch,
        serialized_sizes=includes.serialized_sizes,
        names=tuple(column.name for column in options.columns if column.name != DEAD_LETTER),
        strings=tuple(column.name for column in options.delivered if column.is_decoded),
    )


def _size(slices: Sequence[Slice]) -> int:
    return sum(len(slice_.data) for slice_ in slices)
