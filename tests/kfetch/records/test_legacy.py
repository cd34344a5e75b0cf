"""Message formats v0 and v1: offsets, times, wrappers, and what is wrong with them."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.errors import CorruptBatch, KfetchError
from kfetch.records import codecs, legacy
from kfetch.records.batch import extent
from kfetch.records.faults import Fault
from kfetch.records.format import LOG_APPEND_TIME
from tests.examples import examples
from tests.kfetch.decoders import Decode, Rows, decode_with
from tests.kfetch.records.batch_builder import CODECS, T0, TP, batch, make_slice, record
from tests.kfetch.records.legacy_builder import message, wrapped
from tests.kfetch.records.test_decode import row

THREE = [message(i, b"%d" % i) for i in range(3)]
ROWS: dict[str, tuple[bytes, Rows]] = {
    "v0": (message(5, magic=0), [row(5, time=-1, kind=-1)]),
    "v1": (message(5), [row(5)]),
    "v1 append time": (message(5, attributes=LOG_APPEND_TIME), [row(5, kind=1)]),
    "v0 has no time bits": (
        message(5, magic=0, attributes=LOG_APPEND_TIME),
        [row(5, time=-1, kind=-1)],
    ),
    "nulls and empties": (
        message(0, None, b"") + message(1, b"", b"k") + message(4, None, None),
        [row(0, None, b""), row(1, b"", b"k"), row(4, None, None)],
    ),
    "no time": (message(0, time=-1), [row(0, time=-1)]),
    "wrapper, relative offsets": (
        wrapped(12, *THREE),
        [row(10 + i, b"%d" % i) for i in range(3)],
    ),
    "wrapper, compacted": (
        wrapped(12, message(0), message(2)),
        [row(10), row(12)],
    ),
    "wrapper at offset 0": (wrapped(0, *THREE), [row(i, b"%d" % i) for i in range(3)]),
    "wrapper of v0, absolute offsets": (
        wrapped(12, message(9, magic=0), message(12, magic=0), magic=0),
        [row(9, time=-1, kind=-1), row(12, time=-1, kind=-1)],
    ),
    "wrapper's append time": (
        wrapped(12, *THREE, attributes=LOG_APPEND_TIME),
        [row(10 + i, b"%d" % i, time=T0 + 9, kind=1) for i in range(3)],
    ),
    "three formats": (
        message(1, magic=0) + wrapped(4, *THREE) + batch(record(), base=5, codec="zstd"),
        [row(1, time=-1, kind=-1), *[row(2 + i, b"%d" % i) for i in range(3)], row(5)],
    ),
}


@pytest.mark.parametrize(("data", "expected"), ROWS.values(), ids=ROWS)
def test_old_rows(decode: Decode, data: bytes, expected: Rows) -> None:
    """Each kind of message gives exactly these rows."""

    assert expected == decode([make_slice(data)])


@pytest.mark.parametrize(("data", "expected"), ROWS.values(), ids=ROWS)
def test_partial_message_behind(decode: Decode, data: bytes, expected: Rows) -> None:
    """A reply may end within a message."""
    for cut in (11, 12, 17, 25, 33, 36):
        assert expected == decode([make_slice(data + message(90, b"1234")[:cut])]), cut


@pytest.mark.parametrize("codec", [name for name in CODECS if name[:4] not in ("none", "zstd")])
def test_old_codecs(decode: Decode, codec: str) -> None:
    """A wrapper's set comes in every codec and framing but zstd."""
    inner = [message(i, b"abcd" * 20, b"%d" % i) for i in range(50)]

    expected = [row(100 + i, b"abcd" * 20, b"%d" % i) for i in range(50)]
    assert expected == decode([make_slice(wrapped(149, *inner, codec=codec))])


@pytest.mark.parametrize(
    ("start", "end", "expected_offsets"),
    [(0, 30, [10, 11, 12, 20, 21, 22]), (11, 21, [11, 12, 20]), (0, 11, [10]), (12, 20, [12]),
     (13, 20, []), (0, 10, []), (22, 23, [22])],
)  # fmt: skip
def test_old_range(decode: Decode, start: int, end: int, expected_offsets: list[int]) -> None:
    """A wrapper's offset is its last: one past the range's end may hold records in range."""
    data = wrapped(12, *THREE) + wrapped(22, *THREE)

    assert expected_offsets == [fields[4] for fields in decode([make_slice(data, start, end)])]


def test_old_wrappers_past_the_end_are_not_opened(decode: Decode) -> None:
    """What follows the range's last record is a later task's matter, damaged or not."""
    data = wrapped(12, *THREE) + wrapped(22, b"garbage")

    assert 3 == len(decode([make_slice(data, 0, 13)]))


def test_old_extent() -> None:
    """The next offset follows the last message's; old formats know no leader epoch."""
    data = wrapped(12, *THREE) + message(17)
    reach = extent(memoryview(data + b"\0" * 20), 11)

    assert (18, -1, len(data), 2) == (
        *(reach.next_offset, reach.leader_epoch, reach.size, reach.batches),
    )


def _flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


CORRUPT: dict[str, tuple[bytes, Fault]] = {
    "crc": (_flipped(message(5)), Fault.CRC),
    "wrapper's crc": (_flipped(wrapped(12, *THREE)), Fault.CRC),
    "inner crc": (wrapped(12, message(0), _flipped(message(1))), Fault.CRC),
    "zstd": (wrapped(12, *THREE, codec="zstd"), Fault.CODEC),
    "codec 5": (message(5, attributes=5), Fault.CODEC),
    "wrapper below its last": (wrapped(1, *THREE), Fault.WRAPPER),
    "wrapper null": (message(5, None, attributes=1), Fault.WRAPPER),
    "wrapper in a wrapper": (wrapped(12, wrapped(2, *THREE)), Fault.WRAPPER),
    "wrapper empty": (wrapped(12), Fault.MISSING),
    "other format inside": (wrapped(12, message(0, bytes(20), magic=0)), Fault.MAGIC),
    "inner offset negative": (wrapped(12, message(-1), message(0)), Fault.OFFSETS),
    "inner offsets go down": (wrapped(12, message(1), message(0)), Fault.OFFSET_DELTA),
    "inner offsets too far apart": (
        wrapped(2**40, message(0), message(2**31)),
        Fault.OFFSET_DELTA,
    ),
    "inner set cut": (wrapped(12, message(0), message(1)[:-9]), Fault.ENDS_EARLY),
    "inner length": (wrapped(12, message(0)[:8] + b"\x7f" * 40), Fault.RECORD_LENGTH),
    "inner garbage": (message(5, b"garbage", attributes=1), Fault.COMPRESSION),
    "key length -2": (message(5, fields=b"\xff\xff\xff\xfe" + b"\0" * 4), Fault.KEY_LENGTH),
    "key past the message": (message(5, fields=b"\0\0\0\x09" + b"\0" * 4), Fault.KEY_LENGTH),
    "value missing": (message(5, fields=b"\0\0\0\4" + b"\0" * 4), Fault.VALUE_LENGTH),
    "value past the message": (message(5, fields=b"\0" * 7 + b"\1"), Fault.VALUE_LENGTH),
    "bytes behind the value": (message(5, fields=b"\0" * 9), Fault.RECORD_SIZE),
    "too short for v1": (message(5, fields=b"\0" * 7), Fault.BATCH_LENGTH),
}


@pytest.mark.parametrize(("data", "fault"), CORRUPT.values(), ids=CORRUPT)
def test_old_faults(decode: Decode, data: bytes, fault: Fault) -> None:
    """A message that breaks its format is named with its topic, partition and offset."""
    with pytest.raises(CorruptBatch) as caught:
        decode([make_slice(data)])

    assert fault.name == caught.value.fault
    assert caught.value.message.startswith("topic clicks, partition 3, record batch at offset ")


def _lz4_wrapper(header: str) -> bytes:
    """Returns a wrapper of v0 around one message, as an LZ4 frame with this header."""
    inner = message(7, magic=0)
    frame = bytes.fromhex("04224d18" + header) + struct.pack("<I", len(inner) | 1 << 31) + inner
    return message(7, frame + bytes(4), magic=0, attributes=codecs.LZ4)


@pytest.mark.parametrize("header", ["60401a", "604082", "607073"])
def test_old_lz4_headers(decode: Decode, header: str) -> None:
    """An LZ4 frame of v0 may have the wrong header of Kafka before 0.10, or any right header."""
    assert [row(7, time=-1, kind=-1)] == decode([make_slice(_lz4_wrapper(header))])


@pytest.mark.parametrize("header", ["604083", "60701a", "607010"])
def test_other_wrong_lz4_headers(decode: Decode, header: str) -> None:
    """Any other header with a wrong checksum is CorruptBatch, even one that Kafka's old formula
    gives for a header that Kafka never wrote."""
    with pytest.raises(CorruptBatch) as caught:
        decode([make_slice(_lz4_wrapper(header))])

    assert Fault.COMPRESSION.name == caught.value.fault


@pytest.mark.parametrize("codec", ["gzip", "snappy xerial", "lz4"])
def test_old_bomb(decode: Decode, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper unfolds to the limit of a batch and no further."""
    inner = b"".join(message(i, bytes(1000)) for i in range(99))
    monkeypatch.setattr(codecs, "_FIRST_BYTES_MIN", 1000)
    monkeypatch.setattr(codecs, "BATCH_BYTES_MAX", len(inner))
    assert 99 == len(decode([make_slice(wrapped(98, inner, codec=codec))]))
    monkeypatch.setattr(codecs, "BATCH_BYTES_MAX", len(inner) - 1)

    with pytest.raises(CorruptBatch, match="do not decompress"):
        decode([make_slice(wrapped(98, inner, codec=codec))])


MAYBE = st.one_of(st.none(), st.binary(max_size=200))
MESSAGE = st.tuples(st.integers(1, 300), MAYBE, MAYBE, st.integers(-1, 2**45))


@given(st.lists(MESSAGE, min_size=1, max_size=8), st.integers(0, 1), st.booleans(), st.booleans())
@examples(35)
def test_old_round_trip(messages: list, magic: int, packed: bool, is_log_append: bool) -> None:
    """Any messages come back, bare or wrapped, in v0 and v1."""
    inner, expected, offset, bits = [], [], 0, LOG_APPEND_TIME if is_log_append and magic else 0
    for gap, key, value, time in messages:
        offset += gap
        own = bits if not packed else 0
        inner.append(message(offset, value, key, magic=magic, time=time, attributes=own))
        stamp = (T0 + 9 if is_log_append and packed else time) if magic else -1
        kind = int(is_log_append) if magic else -1
        expected.append(row(offset, value, key, time=stamp, kind=kind))
    data = b"".join(inner)
    if packed:
        data = wrapped(offset, *inner, magic=magic, attributes=bits)

    assert expected == decode_with("reference")([make_slice(data)])
    assert expected == decode_with("kernel")([make_slice(data)])


@given(st.binary(max_size=80), st.integers(0, 1))
@examples(60)
def test_any_message_set(data: bytes, magic: int) -> None:
    """Any bytes as a message set are rewritten or a clean error."""
    try:
        records = legacy.to_v2(memoryview(data), TP, magic, wrapper=9, check_crcs=False)
    except CorruptBatch:
        return
    assert records.record_count > 0


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("count", "size"), [(2000, 0), (2000, 100), (1, 500_000)])
def test_rewriting_a_set_takes_its_bytes_once(magic: int, count: int, size: int) -> None:
    """The records of a set take no more memory than it does: that is reserved. ``bytearray`` takes
    an eighth more address space while it grows.
    """
    data = b"".join(message(i, bytes(size), magic=magic) for i in range(count))
    tracemalloc.start()
    try:
        legacy.to_v2(memoryview(data), TP, magic, wrapper=count - 1, check_crcs=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak <= len(data) * 9 // 8 + 2000


@pytest.mark.timeout(120)
@pytest.mark.parametrize("codec", codecs.CODECS_LEGACY)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_without_a_byte(decode: Decode, codec: int, magic: int) -> None:
    """Decoding a compressed message whose value is empty ends, with an error."""
    with pytest.raises(KfetchError):
        decode([make_slice(message(7, b"", magic=magic, attributes=codec))])
