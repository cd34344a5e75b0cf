"""The faults of record batches as one table. Both decoders use its numbers.

The kernel returns a number, the reference raises at once; the sentence is the same. ``batch``,
``reference`` and ``kernel`` detect the faults. This module only has the words.
"""

from __future__ import annotations

from enum import IntEnum

from kfetch.errors import CorruptBatch, MalformedTimestamp
from kfetch.model import TopicPartition


class Fault(IntEnum):
    """``compiled.interface`` repeats the numbers 1 to 13 and that of CRC, and a test compares them.

    Every fault is damage except TIMESTAMP: Spark's type can't hold that time.
    """

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
    MAGIC = 22
    OFFSETS = 23
    COUNT = 24
    CRC = 25
    CODEC = 26
    COMPRESSION = 27
    ORDER = 28
    CONTROL = 29
    WRAPPER = 30


class UnexplainedFault(Exception):
    """The kernel found a fault in slices. ``sections`` and ``decode`` must locate and name it."""


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
    Fault.BATCH_LENGTH: "its length is too small for a record batch",
    Fault.MAGIC: "its magic byte is unknown",
    Fault.OFFSETS: "its offsets are negative or beyond 64 bits",
    Fault.COUNT: "its record count is negative",
    Fault.CRC: "its CRC does not match its bytes",
    Fault.CODEC: "its compression codec is unknown",
    Fault.COMPRESSION: "its records do not decompress",
    Fault.ORDER: "its offsets do not lie behind those of the batch before it",
    Fault.CONTROL: "its control record says neither version nor type",
    Fault.WRAPPER: "a compressed message of an old format is malformed",
}


def failure(
    fault: Fault,
    tp: TopicPartition,
    base_offset: int,
    record: int | None = None,
    detail: str = "",
) -> CorruptBatch:
    """Returns the error for ``fault``. ``record`` counts from 0 within the batch."""
    where = f"topic {tp.topic}, partition {tp.partition}, record batch at offset {base_offset}"
    record_part = "" if record is None else f", record {record}"
    return CorruptBatch(
        f"{where}{record_part}: {_SENTENCES[fault]}{detail}",
        **tp._asdict(),
        base_offset=base_offset,
        record=record,
        fault=fault.name,
    )


def malformed_timestamp(tp: TopicPartition, offset: int, timestamp: int) -> MalformedTimestamp:
    """Returns Spark's own error for a time beyond its microseconds, in its words (SPARK-56243)."""
    return MalformedTimestamp(
        f"[KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic {tp.topic} partition {tp.partition} "
        f"offset {offset} has timestamp value {timestamp} that overflows when converting to "
        "Spark's microsecond-precision TimestampType. Kafka record timestamps must be in "
        "milliseconds since epoch per the Kafka protocol. The provided value suggests the "
        "producer may be writing timestamps in microseconds or nanoseconds instead. Ensure the "
        "Kafka producer sets the ProducerRecord timestamp in milliseconds. SQLSTATE: 22008",
        **tp._asdict(),
        offset=offset,
        timestamp=timestamp,
    )
