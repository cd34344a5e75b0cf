"""Decoding a reply in parts: compressed batches unpack to many times their size."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch import decoding
from kfetch.compiled import kernel
from kfetch.decoding import decode_part
from kfetch.errors import CorruptBatch
from kfetch.formats.places import slices_from
from kfetch.model import TopicPartition
from kfetch.records import Columns, Memory, Slice, arrow, codecs
from kfetch.records import memory as memories
from kfetch.records.format import CONTROL, HEADER_BYTES, TRANSACTIONAL
from kfetch.records.memory import Part
from kfetch.spark.options import parse
from tests.kfetch.decoders import DECODERS, decode
from tests.kfetch.records.batch_builder import CODECS, batch, make_slice, record
from tests.kfetch.records.legacy_builder import message, wrapped

MIB = 1 << 20
OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


class CountedMemory(Memory):
    """Counts what decode calls reserve."""

    def __init__(self, part_bytes: int) -> None:
        super().__init__(part_bytes)
        self.size = 0
        self.peak = 0

    def reserve(self, size: int) -> None:
        """See Memory."""
        self.size += size
        self.peak = max(self.peak, self.size)

    def release(self, size: int) -> None:
        """See Memory."""
        self.size -= size


@pytest.fixture(params=["kernel", "reference"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both decoders."""
    monkeypatch.setattr(decoding, "kernel", lambda: DECODERS[request.param])


def parts(slices: Sequence[Slice], memory: Memory, **how: object) -> list[pa.RecordBatch | None]:
    """The batches of all parts."""
    batches = []
    while slices:
        before = slices
        part, slices = decode_part(slices, memory=memory, **how)  # type: ignore[arg-type]
        batches.append(part)
        assert [s.tp for s in slices] == [s.tp for s in before[len(before) - len(slices) :]]
        if part is not None and slices and slices[0].tp == before[0].tp:
            assert slices[0].start > part.column("offset").to_pylist()[-1]
    return batches


def rows(batches: Sequence[pa.RecordBatch | None]) -> list[dict[str, object]]:
    """The rows of all parts."""
    return [row for part in batches if part is not None for row in part.to_pylist()]


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of any codec, of two transactional producers and of none, with markers and gaps.

    A faulty producer may repeat an offset, or give its records other orders. Kafka checks that of
    compressed batches only.
    """
    out, offset = b"", draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, 12))):
        producer = draw(st.sampled_from([-1, 1, 2]))
        if producer > 0 and draw(st.booleans()):
            key = draw(st.sampled_from([ABORT, COMMIT]))
            marker = record(key=key, value=b"\0" * 6)
            out += batch(marker, base=offset, producer=producer, attributes=CONTROL | TRANSACTIONAL)
            offset += 1
            continue
        count = draw(st.integers(1, 4))
        deltas = draw(st.just(range(count)) | st.lists(st.integers(0, count - 1), max_size=6))
        out += batch(
            *[record(i, b"x" * draw(st.integers(0, 3000))) for i in deltas],
            base=offset,
            last_delta=count - 1,
            codec=draw(st.sampled_from(list(CODECS))),
            producer=producer,
            attributes=TRANSACTIONAL if producer > 0 else 0,
        )
        offset += count + draw(st.integers(0, 2))
    return out


SLICES = st.lists(
    st.builds(
        lambda data, start, size, aborted, partition: replace(
            make_slice(data, start, start + size, TopicPartition("t", partition)),
            aborted=tuple(aborted),
        ),
        logs(),
        st.integers(0, 10),
        st.integers(1, 40),
        st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(0, 30)), max_size=3),
        st.integers(0, 10**6),
    ),
    max_size=3,
    unique_by=lambda slice_: slice_.tp,
)


@pytest.mark.usefixtures("implementation")
@given(
    slices=SLICES,
    part_bytes=st.integers(1, 20_000),
    rows_bytes=st.sampled_from([1, 80, 120, 1 << 20]),
)
def test_parts_hold_the_same_rows(slices: list[Slice], part_bytes: int, rows_bytes: int) -> None:
    """The rows of all parts are those of one call, with any codecs, transactions and limits."""
    whole = decode(slices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memories, "ROWS_BYTES_MAX", rows_bytes)
        found = parts(slices, Memory(part_bytes))

    assert rows([whole]) == rows(found)


@pytest.mark.usefixtures("implementation")
@given(slices=SLICES, choice=st.integers(0, 10**6), part_bytes=st.integers(1, 20_000))
def test_the_rest_begins_at_any_row(slices: list[Slice], choice: int, part_bytes: int) -> None:
    """The slices from a row on have that row and all behind it, whatever the transactions."""
    whole = rows([decode(slices)])
    if whole:
        row = choice % len(whole)
        rest = slices_from(slices, row, parse(OPTIONS), Memory(part_bytes))

        assert whole[row:] == rows([decode(rest)])


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_offsets_that_a_batch_repeats(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Kafka's own consumer, the first record of an offset counts, and no earlier offset
    follows. So a batch of many such records has no more rows than offsets, in parts or whole."""
    monkeypatch.setattr(memories, "ROWS_BYTES_MAX", 1000)
    deltas = [0, 0, 5, 3, 5, 6] + [7] * 300
    values = [record(delta, b"%d" % n) for n, delta in enumerate(deltas)]
    slices = [make_slice(batch(*values, codec=codec))]
    for memory in (Memory(), Memory(100)):
        found = [(row["offset"], row["value"]) for row in rows(parts(slices, memory))]

        assert [(0, b"0"), (5, b"2"), (6, b"5"), (7, b"6")] == found


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("codec", ["gzip", "snappy raw", "lz4", "zstd", "zstd without size"])
def test_a_part_takes_its_share(codec: str) -> None:
    """A reply that unpacks to many times a part takes at most a part of unpacked bytes, and as much
    again for the rows."""
    records = [record(i, b"%4d" % i + b"x" * 20_000) for i in range(6)]
    data = b"".join(batch(*records, base=6 * n, codec=codec) for n in range(40))
    memory = CountedMemory(MIB)
    batches = []
    slices: Sequence[Slice] = [make_slice(data)]
    while slices:
        part, slices = decode_part(slices, memory=memory)
        batches.append(part)
        memory.size = 0

    assert 240 == len(rows(batches))
    assert 5 <= len(batches) <= 7
    assert 2.2 * MIB > memory.peak


def test_one_batch_larger_than_a_part_is_decoded_alone() -> None:
    """A batch that unpacks to more than a part is a part of its own."""
    small = record(value=b"x" * 100)
    large = record(value=b"".join(b"%d" % n for n in range(20_000)))
    values = [small, large, large, small]
    data = b"".join(batch(value, base=n, codec="zstd") for n, value in enumerate(values))
    batches = parts([make_slice(data)], Memory(1000))

    assert [1, 1, 1, 1] == [part.num_rows for part in batches if part is not None]


LONG_TOPIC = TopicPartition("t" * 249, 0)


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("counts", [[300], [3, 300, 40, 2, 70]])
def test_a_batch_of_more_rows_than_arrow_holds(
    codec: str, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch whose rows are too large for one Arrow batch comes in parts, compressed or not."""
    monkeypatch.setattr(arrow, "BATCH_BYTES_MAX", 20_000)
    monkeypatch.setattr(memories, "ROWS_BYTES_MAX", 10_000)
    bases = list(accumulate(counts, initial=0))
    batches = [
        batch(*map(record, range(count)), base=base, codec=codec)
        for base, count in zip(bases, counts, strict=False)
    ]
    slices = [make_slice(b"".join(batches), 2, bases[-1] - 3, LONG_TOPIC)]
    found = parts(slices, Memory(16 * MIB))

    assert [*range(2, bases[-1] - 3)] == [row["offset"] for row in rows(found)]
    assert 10_000 // 285 >= max(part.num_rows for part in found if part is not None)


@pytest.mark.parametrize("columns", [Columns(), Columns(typed_bytes=400)])
def test_the_rest_of_a_batch_is_not_reserved(
    columns: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call reserves the rows that it decodes of a large batch, and the batch unpacked."""
    monkeypatch.setattr(memories, "ROWS_BYTES_MAX", 10_000)
    monkeypatch.setattr(kernel, "ROWS_BYTES_MAX", 10_000)
    memory = CountedMemory(16 * MIB)
    data = batch(*map(record, range(5000)), codec="snappy raw")
    decode_part([make_slice(data, tp=LONG_TOPIC)], columns=columns, memory=memory)

    assert 140_000 > memory.peak


def test_structs_count_as_rows() -> None:
    """A part has fewer rows, if each of them becomes a wide struct."""
    slices = [make_slice(b"".join(batch(record(value=b"{}"), base=n) for n in range(8)))]
    wide = parts(slices, Memory(12_000), columns=Columns(typed_bytes=4_900))

    assert [8] == [part.num_rows for part in parts(slices, Memory(12_000)) if part is not None]
    assert [2, 2, 2, 2] == [part.num_rows for part in wide if part is not None]


def test_a_damaged_batch_is_reported_once() -> None:
    """With ``on_corrupt`` each damaged batch is skipped and reported once, whatever the parts."""
    packed = [
        bytearray(batch(record(value=b"x" * 1000), base=n, codec="lz4", producer=1))
        for n in range(20)
    ]
    for n in (3, 4, 11):
        packed[n][-1] ^= 1
    slices = [make_slice(b"".join(packed))]
    for part_bytes in (1, 2500, 5000, 100_000):
        errors: list[CorruptBatch] = []
        skipped = rows(parts(slices, Memory(part_bytes), on_corrupt=errors.append))
        offsets = [row["offset"] for row in skipped]

        assert [n for n in range(20) if n not in (3, 4, 11)] == offsets
        assert [3, 4, 11] == [error.where["base_offset"] for error in errors]


TINY = {
    "compressed": batch(record(value=b"x"), codec="snappy raw"),
    "of a slice with aborted transactions": batch(record(value=b"x")),
    "v0": message(0, b"x", magic=0),
    "v1": message(0, b"x"),
    "v1, compressed": wrapped(0, message(0, b"x")),
}


@pytest.mark.parametrize("one", TINY.values(), ids=TINY.keys())
def test_many_tiny_batches_are_reserved(one: bytes) -> None:
    """A decoder reserves about what it takes for tiny batches, each of them Python's objects. A
    part has no more of them than it has room for."""
    data = b"".join(struct.pack(">q", offset) + one[8:] for offset in range(1000))
    slices = [replace(make_slice(data), aborted=((99, 0),))]
    taken, memory = [], CountedMemory(MIB // 3)
    for _ in range(3):  # Python may enlarge a table of its own meanwhile
        memory.size = memory.peak = 0
        tracemalloc.start()
        _, remaining = decode_part(slices, memory=memory)
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert 0.8 * min(taken) < memory.peak < 2.2 * MIB / 3
    assert remaining
    assert 1000 == len(rows(parts(slices, memory)))


def _zstd_bomb(unpacked: int, size: int) -> bytes:
    """A zstd frame of ``size`` bytes that unpacks to ``unpacked`` zeros (RFC 8878).

    It has blocks of one byte that repeats 128 KiB times, and a skippable frame before them.
    """
    header = struct.pack("<IBB", 0xFD2FB528, 0, 0x58)  # no size, a window of 2 MiB
    count = unpacked // (128 << 10)
    blocks = [struct.pack("<I", (128 << 10) << 3 | 1 << 1 | (n == count - 1)) for n in range(count)]
    frame = header + b"".join(blocks)
    return struct.pack("<II", 0x184D2A50, size - len(frame) - 8).ljust(size - len(frame), b"\0") + (
        frame
    )


def test_a_bomb_is_a_corrupt_batch() -> None:
    """A batch of 1 MiB that unpacks to 4 GiB is CorruptBatch. It reserves the largest size of one
    batch and no more."""
    assert MIB == len(cramjam.zstd.decompress(_zstd_bomb(MIB, 1000)))
    bomb = batch(section=_zstd_bomb(4 << 30, MIB), count=1, last_delta=0, codec="zstd")
    memory = CountedMemory(MIB)

    with pytest.raises(CorruptBatch, match="zstd, at most 134217728 bytes"):
        decode_part([make_slice(bomb)], memory=memory)
    assert MIB + HEADER_BYTES == len(bomb)
    assert codecs.BATCH_BYTES_MAX >= memory.peak


def test_a_chunk_that_is_too_small_is_freed_before_a_larger_one_is_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A decoder that waits for a larger chunk does not keep the smaller one meanwhile."""
    chunks: list[weakref.ref[Any]] = []
    living: list[int] = []

    def recorded(size: int, dtype: Any) -> Any:
        chunk = np.empty(size, dtype)
        chunks.append(weakref.ref(chunk))
        return chunk

    class Observed(Memory):
        def reserve(self, size: int) -> None:
            living.append(sum(chunk() is not None for chunk in chunks))

    monkeypatch.setattr(codecs, "empty_array", recorded)
    data = gzip.compress(bytes(1 << 20)) + gzip.compress(b"x")  # the last size is of the last part
    buffer = codecs.DecompressionBuffer(len(data), Part(Observed()))
    unpacked, _ = buffer.decompress(codecs.GZIP, memoryview(data))

    assert (1 << 20) + 1 == len(unpacked)
    assert len(living) > 1
    assert {0} == set(living)
