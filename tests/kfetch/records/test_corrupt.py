"""Damaged batches: every fault by hand, then thousands of random ones."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest

from kfetch.errors import CorruptBatch, KfetchError, WireError
from kfetch.records import Extent, Slice, codecs
from kfetch.records.batch import extent
from kfetch.records.faults import Fault
from kfetch.records.format import CONTROL
from tests.kfetch.decoders import Decode, decode_with
from tests.kfetch.records.batch_builder import (
    CODECS,
    TP,
    batch,
    blob,
    make_slice,
    record,
    varint,
    xerial,
)


def body(*fields: bytes) -> bytes:
    """One record out of raw fields, its length being right."""
    data = b"".join(fields)
    return varint(len(data)) + data


def one(section: bytes, count: int = 1, **fields: int) -> bytes:
    """A batch around raw records."""
    return batch(section=section, count=count, **fields)


FRONT = b"\0" + varint(0) + varint(0)  # attributes, time, offset
BARE = FRONT + varint(-1) + varint(-1)  # and neither key nor value
LONG32, LONG64 = b"\x80" * 5 + b"\0", b"\x80" * 10 + b"\0"
WIDE32, WIDE64 = b"\xff" * 4 + b"\x10", b"\xff" * 9 + b"\x02"

RECORDS: dict[str, tuple[bytes, Fault, int]] = {
    "no bytes": (one(b""), Fault.MISSING, 0),
    "one too few": (batch(record(), count=2), Fault.MISSING, 1),
    "one too many": (batch(record(), record(), count=1), Fault.LEFTOVER, 1),
    "empty batch with bytes": (batch(record(), count=0), Fault.LEFTOVER, 0),
    "count of 2**31-1": (batch(record(), count=2**31 - 1), Fault.MISSING, 1),
    "length cut": (one(b"\x80"), Fault.ENDS_EARLY, 0),
    "length overlong": (one(LONG32), Fault.OVERLONG, 0),
    "length negative": (one(varint(-1)), Fault.RECORD_LENGTH, 0),
    "length past the batch": (one(varint(8) + BARE + varint(0)), Fault.RECORD_LENGTH, 0),
    "length 0": (one(varint(0)), Fault.ENDS_EARLY, 0),
    "attributes only": (one(body(b"\0")), Fault.ENDS_EARLY, 0),
    "time overlong": (one(body(b"\0", LONG64)), Fault.OVERLONG, 0),
    "time beyond 64 bits": (one(body(b"\0", WIDE64)), Fault.OVERLONG, 0),
    "time cut": (one(body(b"\0", b"\x80")), Fault.ENDS_EARLY, 0),
    "offset overlong": (one(body(b"\0\0", LONG32)), Fault.OVERLONG, 0),
    "offset beyond 32 bits": (one(body(b"\0\0", WIDE32)), Fault.OVERLONG, 0),
    "offset negative": (one(body(b"\0\0", varint(-1))), Fault.OFFSET_DELTA, 0),
    "offset past the last": (batch(record(0), record(2)), Fault.OFFSET_DELTA, 1),
    "key length -2": (one(body(FRONT, varint(-2))), Fault.KEY_LENGTH, 0),
    "key past the record": (one(body(FRONT, varint(3), b"ab")), Fault.KEY_LENGTH, 0),
    "key overlong": (one(body(FRONT, LONG32)), Fault.OVERLONG, 0),
    "value missing": (one(body(FRONT, blob(b"k"))), Fault.ENDS_EARLY, 0),
    "value length -2": (one(body(FRONT, blob(None), varint(-2))), Fault.VALUE_LENGTH, 0),
    "value past the record": (
        one(body(FRONT, blob(None), varint(2), b"a") + record()),
        Fault.VALUE_LENGTH,
        0,
    ),
    "value length minimal": (one(body(FRONT, blob(None), varint(-(2**31)))), Fault.VALUE_LENGTH, 0),
    "header count missing": (one(body(BARE)), Fault.ENDS_EARLY, 0),
    "header count negative": (one(body(BARE, varint(-1))), Fault.HEADER_COUNT, 0),
    "header count too large": (one(body(BARE, varint(2**31 - 1))), Fault.ENDS_EARLY, 0),
    "header key null": (one(body(BARE, varint(1), blob(None))), Fault.HEADER_KEY_LENGTH, 0),
    "header key length -2": (one(body(BARE, varint(1), varint(-2))), Fault.HEADER_KEY_LENGTH, 0),
    "header key past the record": (
        one(body(BARE, varint(1), varint(9), b"k")),
        Fault.HEADER_KEY_LENGTH,
        0,
    ),
    "header value missing": (one(body(BARE, varint(1), blob(b"k"))), Fault.ENDS_EARLY, 0),
    "header value length -2": (
        one(body(BARE, varint(1), blob(b"k"), varint(-2))),
        Fault.HEADER_VALUE_LENGTH,
        0,
    ),
    "header value past the record": (
        one(body(BARE, varint(1), blob(b"k"), varint(5), b"v")),
        Fault.HEADER_VALUE_LENGTH,
        0,
    ),
    "record longer than its fields": (one(body(BARE, varint(0), b"x")), Fault.RECORD_SIZE, 0),
    "second record": (batch(record(), body(b"\0"), last_delta=1), Fault.ENDS_EARLY, 1),
}


@pytest.mark.parametrize(("data", "fault", "at"), RECORDS.values(), ids=RECORDS)
def test_faulty_record(decode: Decode, data: bytes, fault: Fault, at: int) -> None:
    """A record that breaks the format is named with its batch and its number."""
    with pytest.raises(CorruptBatch) as caught:
        decode([make_slice(batch(record())), make_slice(data)])

    expected = {"topic": "clicks", "partition": 3, "base_offset": 0, "record": at}
    assert {**expected, "fault": fault.name} == caught.value.where


HEADERS: dict[str, tuple[bytes, Fault]] = {
    "crc": (batch(record())[:-1] + b"\x7f", Fault.CRC),
    "length negative": (batch(record(), length=-1), Fault.BATCH_LENGTH),
    "length minimal": (batch(record(), length=-(2**31)), Fault.BATCH_LENGTH),
    "length 0": (batch(record(), length=0), Fault.BATCH_LENGTH),
    "length below any format": (batch(record(), length=13), Fault.BATCH_LENGTH),
    "length below the header": (batch(record(), length=48), Fault.BATCH_LENGTH),
    "length below, nothing behind": (batch(record(), length=30)[:42], Fault.BATCH_LENGTH),
    "magic 3": (batch(record(), magic=3), Fault.MAGIC),
    "magic -1": (batch(record(), magic=-1), Fault.MAGIC),
    "count negative": (batch(record(), count=-1), Fault.COUNT),
    "base offset negative": (batch(record(), base=-1), Fault.OFFSETS),
    "last delta negative": (batch(record(), last_delta=-1), Fault.OFFSETS),
    "last offset beyond 64 bits": (batch(record(), base=2**63 - 1), Fault.OFFSETS),
    "codec 5": (batch(record(), attributes=5), Fault.CODEC),
    "codec 7": (batch(record(), attributes=7), Fault.CODEC),
    "control batch with a bad crc": (
        batch(record(), attributes=CONTROL)[:-1] + b"\x7f",
        Fault.CRC,
    ),
}


@pytest.mark.parametrize(("data", "fault"), HEADERS.values(), ids=HEADERS)
def test_faulty_header(decode: Decode, data: bytes, fault: Fault) -> None:
    """A batch header that breaks the format is named with its batch."""
    with pytest.raises(CorruptBatch) as caught:
        decode([make_slice(batch(record())), make_slice(data)])

    assert (fault.name, None) == (caught.value.fault, caught.value.record)
    assert struct.unpack_from(">q", data)[0] == caught.value.base_offset
    assert str(caught.value).startswith("topic clicks, partition 3, record batch at offset ")


@pytest.mark.parametrize("base", [0, 7, 9, 10])
def test_offsets_go_up(decode: Decode, base: int) -> None:
    """A batch whose offsets do not lie behind those before it is corrupt; brokers never send it,
    and the base offset lies outside the CRC."""
    before = batch(record(), base=7, last_delta=3)

    with pytest.raises(CorruptBatch, match=f"offset {base}: its offsets do not lie behind"):
        decode([make_slice(before + batch(record(), base=base))])
    assert 11 == extent(memoryview(before + batch(record(), base=base)), 0).next_offset


def test_crc_not_checked_on_request(decode: Decode) -> None:
    """``check_crcs=False`` reads a batch whose CRC is wrong (Kafka's ``check.crcs``)."""
    data = batch(record(value=b"v\0"))[:-2] + b"w\0"

    assert decode([make_slice(data)], check_crcs=False)[0][1] == b"vw"


SECTION = b"".join(record(i, bytes(100)) for i in range(40))
COMPRESSED = {name: how for name, how in CODECS.items() if name != "none"}
UNDECODABLE: dict[str, tuple[str, bytes]] = {
    **{f"{name}, cut": (name, pack(SECTION)[:-3]) for name, (_, pack) in COMPRESSED.items()},
    **{f"{name}, garbage": (name, b"\x99" * 50) for name in COMPRESSED},
    **{
        f"{name}, bytes behind": (name, pack(SECTION) + b"\x01\x02\x03")
        for name, (_, pack) in COMPRESSED.items()
    },
    "snappy claims 4 GiB": ("snappy raw", b"\xff\xff\xff\xff\x0f\x00a"),
    "xerial block past the end": ("snappy raw", xerial(b"")[:16] + b"\x7f\xff\xff\xff\0"),
    "xerial block negative": ("snappy raw", xerial(b"")[:16] + b"\xff\xff\xff\xff\0"),
    "xerial block length cut": ("snappy raw", xerial(b"")[:16] + b"\0\0"),
}


@pytest.mark.parametrize(("codec", "section"), UNDECODABLE.values(), ids=UNDECODABLE)
def test_undecodable(decode: Decode, codec: str, section: bytes) -> None:
    """Compressed bytes that are cut, foreign or followed by others are a corrupt batch."""
    data = batch(section=section, count=40, last_delta=39, codec=codec)

    with pytest.raises(CorruptBatch, match="do not decompress"):
        decode([make_slice(data)])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("codec", COMPRESSED)
def test_nothing_to_decompress(decode: Decode, codec: str) -> None:
    """A compressed batch without a byte is corrupt, and decoding it ends."""
    data = batch(section=b"", count=1, codec=codec)

    with pytest.raises(CorruptBatch):
        decode([make_slice(data)])


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bomb(decode: Decode, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may unfold to the limit, and one byte more is refused within that memory."""
    monkeypatch.setattr(codecs, "_FIRST_BYTES_MIN", 1000)
    records = [record(i, bytes(1000)) for i in range(99)]
    bomb, unfolded = batch(*records, codec=codec), len(b"".join(records))
    monkeypatch.setattr(codecs, "BATCH_BYTES_MAX", unfolded)
    assert len(decode([make_slice(bomb)])) == 99
    monkeypatch.setattr(codecs, "BATCH_BYTES_MAX", unfolded - 1)

    with pytest.raises(CorruptBatch, match=f"at most {unfolded - 1} bytes"):
        decode([make_slice(bomb)])


def test_bombs_together(decode: Decode, monkeypatch: pytest.MonkeyPatch) -> None:
    """All batches of one call share a limit too; passing it is no corruption."""
    data = b"".join(batch(record(0, bytes(1000)), base=i, codec="lz4") for i in range(5))
    monkeypatch.setattr(codecs, "CALL_BYTES_MAX", 5 * len(record(0, bytes(1000))))
    assert len(decode([make_slice(data)])) == 5
    monkeypatch.setattr(codecs, "CALL_BYTES_MAX", 5 * len(record(0, bytes(1000))) - 1)

    with pytest.raises(KfetchError, match=r"fetch\.max\.bytes") as caught:
        decode([make_slice(data)])
    assert KfetchError is type(caught.value)


def _sample(codec: str) -> bytes:
    rows = [
        record(i, b"abc" * i, None if i % 2 else b"key", [(b"h", b"x" * i)] * (i % 3), i - 2)
        for i in range(6)
    ]
    return b"".join(batch(*rows, base=10 + 6 * i, codec=codec) for i in range(2))


def _mutation(rng: random.Random, data: bytes, first: int = 0) -> bytes:
    """A flip, a new byte, a cut-out, a doubling or a cut end; ``first`` bytes of a batch stay."""
    out, at = bytearray(data), rng.randrange(first, len(data))
    kind = rng.randrange(6)
    if kind <= 1:
        out[at] ^= 1 << rng.randrange(8)
    elif kind == 2:
        out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    elif kind == 3:
        del out[at : at + rng.randrange(1, 5)]
    elif kind == 4:
        out[at:at] = out[at : at + rng.randrange(1, 5)]
    else:
        del out[at:]
    return bytes(out)


def _outcome(decode: Decode, slices: list[Slice], check_crcs: bool) -> object:
    try:
        return decode(slices, check_crcs=check_crcs)
    except KfetchError as error:
        return type(error), error.message, error.where


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy xerial", "lz4", "zstd"])
def test_mutations_unchecked(codec: str) -> None:
    """Without CRCs, damaged batches give the same rows or the same error from both decoders."""
    rng, data = random.Random(codec + str(random.random())), _sample(codec)
    reference, kernel = decode_with("reference"), decode_with("kernel")
    failed = 0
    for _ in range(300):
        damaged = _mutation(rng, data)
        for _ in range(rng.randrange(2)):
            damaged = _mutation(rng, damaged) if len(damaged) > 1 else damaged
        slices = [make_slice(damaged, start=12, end=19)]
        expected = _outcome(reference, slices, check_crcs=False)

        assert expected == _outcome(kernel, slices, check_crcs=False), damaged.hex()
        failed += isinstance(expected, tuple)
    assert failed > 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy xerial", "lz4", "zstd"])
def test_mutations_checked(decode: Decode, codec: str) -> None:
    """With CRCs, a damaged batch never gives a wrong row: the first ones, or a clean error."""
    rng, data = random.Random(codec + str(random.random())), _sample(codec)
    right = decode([make_slice(data)])
    second = extent(memoryview(data)[: len(data) // 2 + 1], 0).size
    for _ in range(200):
        # The base offset and the epoch lie outside the CRC: brokers write them later.
        damaged = data[:second] + _mutation(rng, data[second:], first=16)
        outcome = _outcome(decode, [make_slice(damaged)], check_crcs=True)

        if isinstance(outcome, list):
            assert right[: len(outcome)] == outcome
            assert len(outcome) in (6, 12)
        else:
            assert issubclass(outcome[0], WireError)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_cut(decode: Decode, codec: str) -> None:
    """Cut anywhere, a reply gives the rows of its complete batches."""
    data = _sample(codec)
    right, half = decode([make_slice(data)]), len(data) // 2
    for cut in range(len(data)):
        expected = right[: 6 * (cut // half)]

        assert expected == decode([make_slice(data[:cut])])


def test_extent_grows_with_the_bytes() -> None:
    """The walk counts complete batches only, wherever the reply is cut."""
    batches = [batch(record(), base=10 * i, epoch=i, last_delta=i) for i in range(4)]
    data, ends = b"".join(batches), [0]
    for encoded in batches:
        ends.append(ends[-1] + len(encoded))
    for count, (low, high) in enumerate(pairwise([*ends, len(data) + 1])):
        last = count - 1
        expected = Extent(
            next_offset=11 * last + 1 if count else 42,
            leader_epoch=last,
            size=low,
            batches=count,
        )
        for cut in range(low, high):
            assert expected == extent(memoryview(data)[:cut], 42)


@pytest.mark.parametrize(
    "data",
    [
        batch(last_delta=8, base=1, count=0),
        batch(last_delta=8, base=1, attributes=CONTROL),
        batch(record(), last_delta=8, base=1, codec="lz4"),
        batch(record(), last_delta=8, base=1)[:-1] + b"\x7f",
    ],
    ids=["empty", "control", "gap at the end", "damaged records"],
)
def test_extent_passes_every_batch(data: bytes) -> None:
    """The next offset follows the last offset delta, also where no row is delivered."""

    expected = Extent(next_offset=10, leader_epoch=5, size=len(data), batches=1)
    assert expected == extent(memoryview(data), 0)


@pytest.mark.parametrize("data", [b for b, fault in HEADERS.values() if fault < Fault.CRC])
def test_extent_stops_at_a_faulty_header(data: bytes) -> None:
    """A faulty header ends the walk without an error: ``decode`` is the one to complain."""
    good = batch(record(), base=6)

    expected = Extent(next_offset=7, leader_epoch=5, size=len(good), batches=1)
    assert expected == extent(memoryview(good + data), 0)


def test_failures_name_their_partition(decode: Decode) -> None:
    """In a call with many slices the error names the one that is damaged."""
    sound = make_slice(batch(record()), tp=TP._replace(partition=1))

    with pytest.raises(CorruptBatch, match="topic clicks, partition 3, record batch at offset 9,"):
        decode([sound, make_slice(batch(record(), count=2, base=9)), sound])
