"""The compiled way from a reply's bytes to rows: batches listed and checked without Python."""

from __future__ import annotations

import functools
import operator

import crc32c
import pytest

from kfetch.compiled import kernel, table
from kfetch.errors import CorruptBatch
from kfetch.model import TopicPartition
from kfetch.records import Columns
from kfetch.records.faults import UnexplainedFault
from kfetch.records.format import CONTROL, TRANSACTIONAL
from kfetch.records.sections import SectionReader
from tests.kfetch.decoders import decode
from tests.kfetch.records.batch_builder import batch, make_slice, record


@pytest.fixture(params=["loops", "loops and package"], autouse=True)
def checker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops check all CRCs; or the package crc32c those of large batches, on other CPUs."""
    if request.param == "loops and package":
        monkeypatch.setattr(table, "_FAST_CRCS", False)


@pytest.mark.parametrize("at_once", [1, 7])
def test_crc_of_any_length(at_once: int) -> None:
    """The compiled CRC is that of the package crc32c for every length around its blocks and pieces,
    and a single wrong bit is noticed wherever it lies."""
    sizes = [*range(0, 1200, 37), 8191, 32 << 10, (64 << 10) + 5, 200_001]
    for size in sizes:
        data = batch(*[record(n, value=bytes(size // at_once)) for n in range(at_once)])
        assert (
            kernel.decode_slices([make_slice(data)], columns=Columns(), check_crcs=True) is not None
        )
        damaged = bytearray(data)
        damaged[-(size // 2) - 1] ^= 1 << (size % 8)
        with pytest.raises((CorruptBatch, UnexplainedFault)):
            kernel.decode_slices([make_slice(bytes(damaged))], columns=Columns(), check_crcs=True)


def test_tables_of_the_crc() -> None:
    """The tables that CPUs without special instructions use give the CRC of RFC 3720."""
    from kfetch.compiled import crc  # with numba, which takes a quarter of a second

    numbers, state = crc.tables(), 0xFFFFFFFF
    for byte in b"123456789":
        state = numbers[(state ^ byte) & 0xFF] ^ state >> 8

    assert 0xE3069283 == state ^ 0xFFFFFFFF
    word = int.from_bytes(b"abcdefgh", "little") ^ 0xFFFFFFFF
    looked_up = [numbers[(7 - i) * 256 + (word >> 8 * i & 0xFF)] for i in range(8)]
    assert crc32c.crc32c(b"abcdefgh") == functools.reduce(operator.xor, looked_up) ^ 0xFFFFFFFF


def test_plain_batches_need_no_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncompressed v2 batches, control batches among them, and however many, never meet Python."""
    monkeypatch.setattr(SectionReader, "sections", None)
    many = [batch(record(value=b"%d" % n), base=n) for n in range(300)]
    many[7] = batch(record(value=b"\0\0\0\0\0\1"), base=7, attributes=CONTROL | TRANSACTIONAL)
    slices = [
        make_slice(b"".join(many)),
        make_slice(b""),
        make_slice(b"".join(many), start=100, end=103),
    ]
    decoded = kernel.decode_slices(slices, columns=Columns(), check_crcs=True)

    assert decoded is not None
    expected = [n for n in range(300) if n != 7] + [100, 101, 102]
    assert expected == decoded.column("offset").to_pylist()
    assert [b"%d" % n for n in expected] == decoded.column("value").to_pylist()


def test_what_python_opens_and_what_it_does_not_keep_their_order() -> None:
    """Slices of both kinds in one call: rows come in the order of the slices, with their topic."""
    plain, packed = batch(record(), record(1)), batch(record(), record(1), codec="zstd")
    tps = [TopicPartition(f"topic-{n % 2}", n) for n in range(200)]
    slices = [make_slice(packed if n % 3 == 1 else plain, tp=tp) for n, tp in enumerate(tps)]
    decoded = kernel.decode_slices(slices, columns=Columns(), check_crcs=True)

    assert decoded is not None
    expected = [tp for tp in tps for _ in range(2)]
    topics, partitions = (decoded.column(name).to_pylist() for name in ("topic", "partition"))
    assert expected == list(map(TopicPartition, topics, partitions))


@pytest.mark.parametrize("where", ["before the range", "control"])
def test_batches_without_rows_are_checked_too(where: str) -> None:
    """A damaged batch without a row in range is an error, from slices and from sections."""
    attributes = CONTROL if where == "control" else 0
    data = bytearray(batch(record(value=b"\0\0\0\0\0\1"), attributes=attributes))
    data[-2] ^= 1
    slices = [make_slice(bytes(data) + batch(record(), base=1), start=0 if attributes else 1)]

    with pytest.raises(CorruptBatch, match="CRC"):
        kernel.decode_slices(slices, columns=Columns(), check_crcs=True)
    with pytest.raises(CorruptBatch, match="CRC"):
        decode(slices)
