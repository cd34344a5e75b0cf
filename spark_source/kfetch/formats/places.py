"""Finds the partitions and offsets of rows whose batch does not have these columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kfetch.decoding import decode_part
from kfetch.model import TopicPartition
from kfetch.options import SourceOptions
from kfetch.records import Columns, Memory, Slice
from kfetch.records.memory import Part

RecordPlace = tuple[TopicPartition, int]
"""A record's partition and offset."""

_COLUMNS = Columns(names=("topic", "partition", "offset"))


def places(
    slices: Sequence[Slice], rows: Sequence[int], options: SourceOptions, memory: Memory
) -> Iterator[RecordPlace]:
    """Yields the place of each row of a batch. ``rows``: their numbers, in order.

    ``slices`` and ``options``: what the batch was decoded from, and how. They are decoded again, in
    parts for which ``memory`` has room.
    """
    first, wanted = 0, list(rows)
    while wanted:
        if not slices:
            raise RuntimeError("the slices do not have this row")
        part = Part(memory, _COLUMNS)
        batch, slices = decode_part(
            slices,
            columns=_COLUMNS,
            check_crcs=options.fetch.check_crcs,
            on_corrupt=(lambda _: None) if options.skip_corrupt_batches else None,
            memory=part,
        )
        count = batch.num_rows if batch is not None else 0
        while batch is not None and wanted and wanted[0] < first + count:
            found = batch.slice(wanted.pop(0) - first, 1).to_pylist()[0]
            yield TopicPartition(found["topic"], found["partition"]), found["offset"]
        first += count
        del batch
        part.abandon()


def slices_from(
    slices: Sequence[Slice], row: int, options: SourceOptions, memory: Memory
) -> tuple[Slice, ...]:
    """Returns the slices from a row of their batch on. The arguments are those of ``places``."""
    tp, offset = next(places(slices, [row], options, memory))
    starts = [item.start if item.tp == tp else offset + 1 for item in slices]
    at = max(i for i, start in enumerate(starts) if start <= offset)
    return replace(slices[at], start=offset), *slices[at + 1 :]
