"""What can be wrong with a record batch, as one table: both decoders speak in its numbers.

The kernel returns a number, the reference raises at once; the sentence is the same. This file
refuses to judge: it only words what ``batch``, ``reference`` and ``kernel`` found.
"""

from __future__ import annotations

from enum import IntEnum

from spark_source.errors import CorruptBatch, KfetchError, WireError
from spark_source.model import TopicPartition

__all__ = ["Fault", "failure"]


class Fault(IntEnum):
    """Numbers 1 to 13 are the kernel's too: ``loops`` repeats them, and a test compares."""

    MISSING = 1
    LEFTOVER = 2
    ENDS_EARLY = 3
    OVERLONG = 4
    RECORD_LENGTH = 5
    KEY_LENGTH = 6
    VALUE_LENGTH = 7
    HEADER_COUNT = 8
    HEADER_KEY_LENGTH = 9
    HEADER_VALUE_LENGTH = 10
    RECORD_SIZE = 11
    OFFSET_DELTA = 12
    TIMESTAMP = 13
    BATCH_LENGTH = 20
    OLD_FORMAT = 21
    MAGIC = 22
    OFFSETS = 23
    COUNT = 24
    CRC = 25
    CODEC = 26
    COMPRESSION = 27


_SENTENCES = {
    Fault.MISSING: "fewer records than its header counts",
    Fault.LEFTOVER: "bytes left over after the last record that its header counts",
    Fault.ENDS_EARLY: "a field runs past the end of its record",
    Fault.OVERLONG: "a varint is longer than its type allows",
    Fault.RECORD_LENGTH: "a record length is negative or runs past the end of the batch",
    Fault.KEY_LENGTH: "a key length is below -1 or runs past the end of its record",
    Fault.VALUE_LENGTH: "a value length is below -1 or runs past the end of its record",
    Fault.HEADER_COUNT: "a header count is negative",
    Fault.HEADER_KEY_LENGTH: "a header key length is negative or runs past the end of its record",
    Fault.HEADER_VALUE_LENGTH: (
        "a header value length is below -1 or runs past the end of its record"
    ),
    Fault.RECORD_SIZE: "a record is longer than its fields",
    Fault.OFFSET_DELTA: "a record's offset lies outside the batch's",
    Fault.TIMESTAMP: "a record's timestamp does not fit into Spark's 64-bit microseconds",
    Fault.BATCH_LENGTH: "its length is too small for a record batch",
    Fault.OLD_FORMAT: "message format v0/v1 is not supported yet",
    Fault.MAGIC: "its magic byte is unknown",
    Fault.OFFSETS: "its offsets are negative or beyond 64 bits",
    Fault.COUNT: "its record count is negative",
    Fault.CRC: "its CRC-32C does not match its bytes",
    Fault.CODEC: "its compression codec is unknown",
    Fault.COMPRESSION: "its records do not decompress",
}

# Not every fault is damage: these two are sound data that kfetch or Spark cannot take.
_CLASSES: dict[Fault, type[KfetchError]] = {
    Fault.OLD_FORMAT: WireError,
    Fault.TIMESTAMP: KfetchError,
}


def failure(
    fault: Fault,
    tp: TopicPartition,
    base_offset: int,
    record: int | None = None,
    detail: str = "",
) -> KfetchError:
    """The error for ``fault``; ``record`` counts from 0 within the batch."""
    where = f"topic {tp.topic}, partition {tp.partition}, record batch at offset {base_offset}"
    which = "" if record is None else f", record {record}"
    return _CLASSES.get(fault, CorruptBatch)(
        f"{where}{which}: {_SENTENCES[fault]}{detail}",
        topic=tp.topic,
        partition=tp.partition,
        base_offset=base_offset,
        record=record,
        fault=fault.name,
    )
