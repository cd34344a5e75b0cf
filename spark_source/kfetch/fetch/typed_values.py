"""The values of a decoded batch as a struct column: ``valueFormat=json``."""

from __future__ import annotations

import logging
import threading
import time
import zoneinfo
from collections.abc import Callable, Sequence
from datetime import tzinfo
from functools import lru_cache

import pyarrow as pa

from kfetch import json_loading
from kfetch.decoding import decode_part
from kfetch.errors import MalformedValue
from kfetch.model import TopicPartition
from kfetch.options import JsonValues, SourceOptions
from kfetch.records import Columns, Memory, Slice
from kfetch.values.ddl import parse_schema
from kfetch.values.json_decoder import JsonDecoder
from kfetch.values.json_options import Mode, json_settings

__all__ = ["TypedValues", "typed_values"]

log = logging.getLogger(__name__)

Place = tuple[TopicPartition, int]
"""A record's partition and offset."""

_SLOW_S = 1.0


class TypedValues:
    """Decodes the values of batches. Several threads may use it."""

    def __init__(self, values: JsonValues) -> None:
        options = {"mode": values.mode}
        zone = values.time_zone or "UTC"
        settings, self._mode = json_settings(options, session_zone=zone, find_zone=find_zone)
        self._decoder = JsonDecoder(parse_schema(values.schema), _loops(), settings)

    def typed(
        self,
        batch: pa.RecordBatch,
        memory: Memory,
        slices: Sequence[Slice],
        options: SourceOptions,
    ) -> pa.RecordBatch:
        """Returns a batch with structs in place of the bytes of its values.

        ``slices`` and ``options``: what the batch was decoded from, and how.
        Raises MalformedValue for the first corrupt value, if the mode is FAILFAST.
        """
        at = batch.schema.get_field_index("value")
        column = batch.column(at)
        decoded = self._decoder.decode_column(column, memory)
        if self._mode is Mode.FAILFAST and len(decoded.corrupt):
            row = int(decoded.corrupt[0])
            raise self._malformed(column[row].as_py(), *_place(slices, row, options))
        return batch.set_column(at, "value", decoded.values)

    def _malformed(self, value: bytes, tp: TopicPartition, offset: int) -> MalformedValue:
        problem = self._decoder.problem(value)
        why = f"{problem.what}, at byte {problem.at}" if problem else "unknown"
        return MalformedValue(
            f"the value of the record at offset {offset} of {tp} does not fit valueSchema: {why}",
            action="correct the producer or the schema, or set valueMode=PERMISSIVE",
            topic=tp.topic,
            partition=tp.partition,
            offset=offset,
        )


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


_lock = threading.Lock()


def typed_values(values: JsonValues) -> TypedValues:
    """Returns the decoder for some options, which all readers share.

    Another thread that calls this while the code is compiled waits for its end.
    """
    with _lock:
        return _typed_values(values)


@lru_cache(maxsize=32)
def _typed_values(values: JsonValues) -> TypedValues:
    return TypedValues(values)


def find_zone(name: str) -> tzinfo | None:
    """Returns the time zone of a region, None if there is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _loops() -> Callable[..., int]:
    began = time.monotonic()
    loops = json_loading.load()
    seconds = time.monotonic() - began
    if seconds > _SLOW_S:
        advice = "`kfetch warm` does that when you build an image"
        log.warning("the JSON decoder was compiled in %.1f s; %s", seconds, advice)
    return loops
