"""Builds the record batches of a log: real bytes of format 2, each once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache

from simulation.cluster.log import Batch
from tests.kfetch.records.batch_builder import batch, record, varint

_TRANSACTIONAL, _CONTROL, _APPEND_TIME = 0x10, 0x20, 0x08
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.pack(">hi", 0, 0)
_varint = cache(varint)


def records(
    base: int,
    epoch: int,
    time_ms: int,
    values: Sequence[bytes],
    *,
    codec: str = "none",
    producer: int = -1,
    append_time: bool = False,
) -> Batch:
    """Returns a batch of records. All have one timestamp.

    ``producer``: of the transaction that the records belong to; -1 for none.
    """
    attributes = _APPEND_TIME if append_time else 0
    if producer >= 0:
        attributes |= _TRANSACTIONAL
    data = batch(
        *[_record(number, value) for number, value in enumerate(values)],
        base=base,
        epoch=epoch,
        codec=codec,
        attributes=attributes,
        producer=producer,
        base_time=time_ms,
        max_time=time_ms,
    )
    last = base + len(values) - 1
    return Batch(base, last, epoch, time_ms, data, tuple(values), producer, producer >= 0)


def _record(number: int, value: bytes) -> bytes:
    """Returns what ``record`` does, for a short value without a key."""
    body = b"\0\0" + _varint(number) + b"\1" + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def marker(base: int, epoch: int, time_ms: int, producer: int, *, commits: bool) -> Batch:
    """Returns the batch that ends a transaction."""
    data = batch(
        record(key=_MARKER_KEY.pack(0, int(commits)), value=_MARKER_VALUE),
        base=base,
        epoch=epoch,
        attributes=_TRANSACTIONAL | _CONTROL,
        producer=producer,
        base_time=time_ms,
        max_time=time_ms,
    )
    return Batch(base, base, epoch, time_ms, data, (), producer, True, not commits)
