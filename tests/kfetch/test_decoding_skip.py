"""onCorruptBatch=skip: the skipped batches, their reports, and the cases that still fail."""

from __future__ import annotations

import pytest

from kfetch import decoding
from kfetch.errors import CorruptBatch, MalformedTimestamp
from kfetch.records import Extent, Slice
from kfetch.records.batch import extent
from kfetch.records.format import CONTROL, TRANSACTIONAL
from tests.kfetch.decoders import DECODERS, decode, rows_of
from tests.kfetch.records.batch_builder import T0, TP, batch, record
from tests.kfetch.records.legacy_builder import message, wrapped


def damaged(data: bytes) -> bytes:
    """The last byte flipped: the CRC fails."""
    return data[:-1] + bytes([data[-1] ^ 1])


def sound(base: int) -> bytes:
    return batch(record(), record(1), base=base)


@pytest.fixture(params=["reference", "kernel"], autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both decoders."""
    monkeypatch.setattr(decoding, "kernel", lambda: DECODERS[request.param])


def skipping(data: bytes, **more: object) -> tuple[list[int], list[str]]:
    """Returns the offsets of the rows, and the faults that were reported."""
    faults: list[str] = []
    fields = {"tp": TP, "start": 0, "end": 2**62, "data": memoryview(data), **more}
    decoded = decode(
        [Slice(**fields)],  # type: ignore[arg-type]
        on_corrupt=lambda error: faults.append(f"{error.base_offset} {error.fault}"),
    )
    return ([] if decoded is None else [row[4] for row in rows_of(decoded)], faults)


BAD_SECTION = batch(record(), b"\x02\0", base=2)
CASES = {
    "crc": (sound(0) + damaged(sound(2)) + sound(4), [0, 1, 4, 5], ["2 CRC"]),
    "crc of the last": (sound(0) + damaged(sound(2)), [0, 1], ["2 CRC"]),
    "crc of all": (damaged(sound(0)) + damaged(sound(2)), [], ["0 CRC", "2 CRC"]),
    "codec": (sound(0) + batch(record(), base=2, attributes=6), [0, 1], ["2 CODEC"]),
    "garbage": (
        batch(base=0, count=1, section=b"x", codec="lz4") + sound(2),
        [2, 3],
        ["0 COMPRESSION"],
    ),
    "a record": (sound(0) + BAD_SECTION + sound(4), [0, 1, 4, 5], ["2 ENDS_EARLY"]),
    "records of two": (
        batch(b"\x02\0", base=0) + BAD_SECTION + sound(4),
        [4, 5],
        ["0 ENDS_EARLY", "2 ENDS_EARLY"],
    ),
    "old message": (message(0) + damaged(message(1)) + sound(2), [0, 2, 3], ["1 CRC"]),
    "old wrapper": (wrapped(2, damaged(message(0))) + sound(3), [3, 4], ["2 CRC"]),
    "gap behind": (damaged(sound(0)) + sound(9), [9, 10], ["0 CRC"]),
}


@pytest.mark.parametrize(("data", "expected_offsets", "faults"), CASES.values(), ids=CASES)
def test_skip(data: bytes, expected_offsets: list[int], faults: list[str]) -> None:
    """A damaged batch is skipped as a whole and reported; every other record is delivered."""

    assert (expected_offsets, faults) == skipping(data)


@pytest.mark.parametrize(("data", "expected_offsets", "faults"), CASES.values(), ids=CASES)
def test_the_default_is_to_fail(
    data: bytes, expected_offsets: list[int], faults: list[str]
) -> None:
    """Without being asked to, nothing is skipped."""
    with pytest.raises(CorruptBatch):
        decode([Slice(tp=TP, start=0, end=2**62, data=memoryview(data))])


LOST = {
    "header of the next unsound": damaged(sound(0)) + batch(record(), base=2, magic=9),
    "length": sound(0) + batch(record(), base=2, length=20),
    "claims offsets of the next": damaged(batch(record(), last_delta=7)) + sound(4),
    "last, and offsets without records": damaged(batch(record(), last_delta=7)),
}


@pytest.mark.parametrize("data", LOST.values(), ids=LOST)
def test_no_guessing(data: bytes) -> None:
    """Where nothing tells for sure what comes behind the damage, skipping is an error too."""
    with pytest.raises(CorruptBatch):
        skipping(data)


def test_a_sound_header_is_believed() -> None:
    """Where the CRC holds, offsets without records (compaction) are no reason to fail."""
    last = batch(record(), base=2, attributes=6, last_delta=7)

    assert ([0, 1], ["2 CODEC"]) == skipping(sound(0) + last)


def test_skipping_checks_crcs() -> None:
    """What is damaged is only known by its CRC, so skipping checks it, asked or not."""
    errors = []
    data = sound(0) + damaged(sound(2)) + sound(4)
    decode(
        [Slice(tp=TP, start=0, end=9, data=memoryview(data))],
        check_crcs=False,
        on_corrupt=errors.append,
    )

    assert [2] == [error.base_offset for error in errors]


def test_a_sound_batch_within_an_aborted_transaction() -> None:
    """A batch that is no marker for sure may be left out anywhere; a marker may not."""
    data = batch(record(), attributes=TRANSACTIONAL, producer=7)
    other = batch(record(), base=1, attributes=6) + sound(2)
    marker = batch(record(key=b"x"), base=1, attributes=TRANSACTIONAL | CONTROL, producer=7)

    assert ([2, 3], ["1 CODEC"]) == skipping(data + other, aborted=((7, 0),))
    with pytest.raises(CorruptBatch, match="its control record"):
        skipping(data + marker + sound(2), aborted=((7, 0),))


def test_last_past_the_range() -> None:
    """A damaged last batch that claims to lead out of the range is not believed."""
    with pytest.raises(CorruptBatch):
        skipping(damaged(sound(0)), end=1)


def test_not_within_an_aborted_transaction() -> None:
    """The damaged batch may be the marker; without it committed records would be left out."""
    data = batch(record(), attributes=TRANSACTIONAL, producer=7) + damaged(sound(1)) + sound(3)

    with pytest.raises(CorruptBatch):
        skipping(data, aborted=((7, 0),))


def test_sound_data_is_not_skipped() -> None:
    """A timestamp beyond Spark's type is no corruption."""
    with pytest.raises(MalformedTimestamp):
        skipping(batch(record(), base_time=2**62) + batch(record(), base=1, base_time=T0))


def test_extent_leaves_a_doubtful_last_batch() -> None:
    """A damaged last batch of unsure offsets waits for the next fetch, unless it is alone."""
    first, doubtful = sound(0), damaged(batch(record(), base=2, last_delta=7))

    expected = Extent(next_offset=2, leader_epoch=5, size=len(first), batches=1)
    assert expected == extent(memoryview(first + doubtful), 0, end=99)
    assert 10 == extent(memoryview(first + doubtful), 0).next_offset
    assert 10 == extent(memoryview(doubtful), 0, end=99).next_offset
    assert 4 == extent(memoryview(first + damaged(sound(2))), 0, end=99).next_offset
