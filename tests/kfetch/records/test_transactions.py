"""read_committed: the decoder leaves out the batches of transactions that a reply lists."""

from __future__ import annotations

import struct

import pytest

from kfetch.errors import CorruptBatch
from kfetch.records import Slice
from kfetch.records.format import CONTROL, TRANSACTIONAL
from tests.kfetch.decoders import Decode
from tests.kfetch.records.batch_builder import TP, batch, record

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


def data(base: int, producer: int, attributes: int = TRANSACTIONAL) -> bytes:
    """A batch of one record."""
    return batch(record(), base=base, attributes=attributes, producer=producer)


def marker(base: int, producer: int, key: bytes = ABORT, codec: str = "none") -> bytes:
    """A control batch."""
    bits = CONTROL | TRANSACTIONAL
    return batch(record(key=key), base=base, attributes=bits, producer=producer, codec=codec)


def committed(decode: Decode, reply: bytes, *aborted: tuple[int, int], start: int = 0) -> list[int]:
    """The offsets that are delivered."""
    slice_ = Slice(tp=TP, start=start, end=2**62, data=memoryview(reply), aborted=aborted)
    return [row[4] for row in decode([slice_])]


CASES: dict[str, tuple[bytes, list[tuple[int, int]], list[int]]] = {
    "nothing aborted": (data(0, 7) + marker(1, 7, COMMIT), [], [0]),
    "aborted": (data(0, 7) + marker(1, 7), [(7, 0)], []),
    "others go on": (
        data(0, 7) + data(1, 8) + data(2, -1, 0) + marker(3, 7) + data(4, 8),
        [(7, 0)],
        [1, 2, 4],
    ),
    "committed, then aborted": (
        data(0, 7) + marker(1, 7, COMMIT) + data(2, 7) + marker(3, 7),
        [(7, 2)],
        [0],
    ),
    "aborted, then committed": (
        data(0, 7) + marker(1, 7) + data(2, 7) + marker(3, 7, COMMIT),
        [(7, 0)],
        [2],
    ),
    "aborted twice": (
        data(0, 7) + marker(1, 7) + data(2, 7) + marker(3, 7) + data(4, 7),
        [(7, 0), (7, 2)],
        [4],
    ),
    "listed in any order": (
        data(0, 7) + data(1, 8) + marker(2, 7) + marker(3, 8) + data(4, 7) + data(5, 8),
        [(8, 1), (7, 0)],
        [4, 5],
    ),
    "began before the reply": (data(10, 7) + marker(11, 7), [(7, 3)], []),
    "marker without data": (marker(0, 7) + data(1, 7), [(7, 0)], [1]),
    "second marker": (data(0, 7) + marker(1, 7) + marker(2, 7) + data(3, 7), [(7, 0)], [3]),
    "ends within": (data(0, 7) + data(1, 7), [(7, 0)], []),
    "not transactional": (data(0, 7, 0) + marker(1, 7), [(7, 0)], [0]),
    "compressed marker": (data(0, 7) + marker(1, 7, codec="lz4") + data(2, 7), [(7, 0)], [2]),
    "empty marker": (
        data(0, 7) + batch(base=1, attributes=CONTROL | TRANSACTIONAL, producer=7) + data(2, 7),
        [(7, 0)],
        [],
    ),
    "unknown type is no abort": (data(0, 7) + marker(1, 7, b"\0\0\0\5") + data(2, 7), [(7, 0)], []),
    "later version": (data(0, 7) + marker(1, 7, b"\0\3\0\0more") + data(2, 7), [(7, 0)], [2]),
    "first offset in a batch's middle": (
        batch(record(), record(1), attributes=TRANSACTIONAL, producer=7) + marker(2, 7),
        [(7, 1)],
        [],
    ),
}


@pytest.mark.parametrize(("reply", "aborted", "expected_offsets"), CASES.values(), ids=CASES)
def test_committed(
    decode: Decode, reply: bytes, aborted: list[tuple[int, int]], expected_offsets: list[int]
) -> None:
    """Records of aborted transactions, and no others, are left out."""

    assert expected_offsets == committed(decode, reply, *aborted)


def test_markers_below_the_start_count(decode: Decode) -> None:
    """A marker ends its transaction even if the range begins behind it."""
    reply = data(0, 7) + marker(1, 7) + data(2, 7)

    assert [2] == committed(decode, reply, (7, 0), start=2)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_corrupt_marker(decode: Decode, key: bytes | None) -> None:
    """A marker that says neither version nor type is corrupt."""
    reply = data(0, 7) + marker(1, 7, key)  # type: ignore[arg-type]

    with pytest.raises(CorruptBatch, match=r"offset 1, record 0: its control record"):
        committed(decode, reply, (7, 0))
