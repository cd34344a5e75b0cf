"""What rows a batch gives: fields, filters, times, headers. One suite, both decoders."""

from __future__ import annotations

import pytest

from kfetch.errors import CorruptBatch, KfetchError, MalformedTimestamp
from kfetch.model import TopicPartition
from kfetch.records import arrow
from kfetch.records.format import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from tests.kfetch.decoders import Decode, Rows
from tests.kfetch.records.batch_builder import (
    CODECS,
    T0,
    TP,
    DefaultRecordBatchBuilder,
    MemoryRecords,
    batch,
    make_slice,
    record,
)
from tests.kfetch.records.java_texts import TEXTS


def row(offset, value=b"v", key=None, headers=None, time=T0, kind=0, tp=TP):
    return (key, value, *tp, offset, time * 1000, kind, headers)


DELETE_HORIZON = 0x40  # an attribute that changes no record's time
MAX_MS = (2**63 - 1) // 1000
THREE = [record(i, b"%d" % i) for i in range(3)]
THREE_ROWS = [row(i, b"%d" % i) for i in range(3)]
BIG = bytes(range(256)) * 300

CASES: dict[str, tuple[bytes, Rows]] = {
    "one record": (batch(record()), [row(0)]),
    "base offset": (batch(*THREE, base=2**40), [row(2**40 + i, b"%d" % i) for i in range(3)]),
    "null value": (batch(record(value=None)), [row(0, None)]),
    "empty value": (batch(record(value=b"")), [row(0, b"")]),
    "null key": (batch(record(key=None)), [row(0, key=None)]),
    "empty key": (batch(record(key=b"")), [row(0, key=b"")]),
    "key": (batch(record(key=b"k")), [row(0, key=b"k")]),
    "null among others": (
        batch(*[record(i, None if i % 3 else b"x", b"k" if i % 2 else None) for i in range(20)]),
        [row(i, None if i % 3 else b"x", b"k" if i % 2 else None) for i in range(20)],
    ),
    "long value": (batch(record(value=BIG, key=BIG[1:])), [row(0, BIG, BIG[1:])]),
    "header": (batch(record(headers=[(b"k", b"v")])), [row(0, headers=[("k", b"v")])]),
    "header null value": (batch(record(headers=[(b"k", None)])), [row(0, headers=[("k", None)])]),
    "header empty": (batch(record(headers=[(b"", b"")])), [row(0, headers=[("", b"")])]),
    "headers in order, twice": (
        batch(record(headers=[(b"b", b"1"), (b"a", None), (b"b", b"")])),
        [row(0, headers=[("b", b"1"), ("a", None), ("b", b"")])],
    ),
    "header key unicode": (
        batch(record(headers=[("žluť🐎".encode(), b"")])),
        [row(0, headers=[("žluť🐎", b"")])],
    ),
    "header key not UTF-8": (
        batch(record(headers=[(b"a\xffb", b"1"), (b"ok", b"2")]), record(1)),
        [row(0, headers=[("a\ufffdb", b"1"), ("ok", b"2")]), row(1)],
    ),
    "header keys as Java has them": (
        batch(record(headers=[(data, b"1") for data in TEXTS])),
        [row(0, headers=[(text, b"1") for text in TEXTS.values()])],
    ),
    "headers of some records": (
        batch(record(0), record(1, headers=[(b"k", b"v")]), record(2)),
        [row(0), row(1, headers=[("k", b"v")]), row(2)],
    ),
    "offset gaps": (
        batch(record(2), record(7), last_delta=9, base=100),
        [row(102), row(107)],
    ),
    "record attributes ignored": (batch(record(attributes=0xFF)), [row(0)]),
    "time delta": (batch(record(time=5)), [row(0, time=T0 + 5)]),
    "negative time delta": (batch(record(time=-5)), [row(0, time=T0 - 5)]),
    "wide time delta": (batch(record(time=-T0 - 1)), [row(0, time=-1)]),
    "no timestamp": (batch(record(), base_time=-1, max_time=-1), [row(0, time=-1)]),
    "log append time": (
        batch(record(0, time=3), record(1, time=9), attributes=LOG_APPEND_TIME, max_time=T0 + 77),
        [row(0, time=T0 + 77, kind=1), row(1, time=T0 + 77, kind=1)],
    ),
    "delete horizon": (
        batch(record(time=-1000), attributes=DELETE_HORIZON, base_time=T0 + 1000),
        [row(0, time=T0)],
    ),
    "latest time": (batch(record(), base_time=MAX_MS), [row(0, time=MAX_MS)]),
    "earliest time": (batch(record(), base_time=-MAX_MS), [row(0, time=-MAX_MS)]),
    "base time beyond, record within": (
        batch(record(time=-(2**63)), base_time=2**63 - 1),
        [row(0, time=-1)],
    ),
    "transactional": (batch(record(), attributes=TRANSACTIONAL), [row(0)]),
    "unknown attribute bits": (batch(record(), attributes=0x7F80), [row(0)]),
    "control": (batch(record(key=b"\0\0\0\1"), attributes=CONTROL | TRANSACTIONAL), []),
    "empty control": (batch(attributes=CONTROL, codec="lz4", section=b""), []),
    "empty": (batch(base_time=-1, last_delta=4), []),
    "empty, codec bits kept": (batch(codec="gzip", section=b"", last_delta=4), []),
    "empty, empty frame": (batch(codec="gzip", last_delta=4), []),
    "empty between others": (
        batch(record()) + batch(base=1, last_delta=3) + batch(record(), base=5),
        [row(0), row(5)],
    ),
    "no bytes": (b"", []),
}


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES)
def test_rows(decode: Decode, data: bytes, expected: Rows) -> None:
    """Each kind of batch gives exactly these rows, as a whole."""

    assert expected == decode([make_slice(data)])


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES)
def test_rows_without_headers(decode: Decode, data: bytes, expected: Rows) -> None:
    """Without the headers column the other columns are the same."""

    assert [(*r[:7], None) for r in expected] == decode([make_slice(data)], headers=False)


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES)
def test_partial_batch_behind(decode: Decode, data: bytes, expected: Rows) -> None:
    """A partial batch at the end is where a reply normally stops."""
    behind = batch(record(value=b"12345"))
    for cut in (1, 11, 12, 20, 60, 61, 65):
        assert expected == decode([make_slice(data + behind[:cut])]), cut


def test_slices_become_one_batch(decode: Decode) -> None:
    """Slices of several topics and partitions become one batch, in their order."""
    others = [TopicPartition("clicks", 0), TopicPartition("ž" * 100, 2), TopicPartition("", 1)]
    slices = [make_slice(batch(*THREE), tp=tp) for tp in [TP, *others, TP]]
    slices.insert(2, make_slice(b"", tp=TP))

    expected = [row(i, b"%d" % i, tp=tp) for tp in [TP, *others, TP] for i in range(3)]
    assert expected == decode(slices)


@pytest.mark.parametrize(
    ("start", "end", "expected_offsets"),
    [(0, 9, range(9)), (4, 9, range(4, 9)), (0, 4, range(4)), (4, 5, [4]), (5, 5, []),
     (9, 20, []), (3, 6, range(3, 6)), (0, 0, [])],
)  # fmt: skip
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_range(
    decode: Decode, start: int, end: int, expected_offsets: list[int], codec: str
) -> None:
    """Records below the start, or at the end and past it, are dropped."""
    data = b"".join(batch(*THREE, base=base, codec=codec) for base in (0, 3, 6))

    assert list(expected_offsets) == [r[4] for r in decode([make_slice(data, start, end)])]


def test_batches_past_the_end_are_not_opened(decode: Decode) -> None:
    """A damaged batch beyond the range is a later task's matter."""
    damaged = bytearray(batch(*THREE, base=3))
    damaged[-1] ^= 1

    assert decode([make_slice(batch(*THREE) + damaged, end=3)]) == THREE_ROWS


@pytest.mark.parametrize("codec", CODECS)
def test_same_rows_in_every_codec(decode: Decode, codec: str) -> None:
    """Compression changes no row: every codec, in every framing that producers write."""
    records = [record(i, b"abcd" * 20, b"%d" % i, [(b"h", b"x")], i) for i in range(50)]
    data = batch(*records, codec=codec) + batch(*THREE, base=50, codec=codec)

    expected = [row(i, b"abcd" * 20, b"%d" % i, [("h", b"x")], T0 + i) for i in range(50)]
    expected += [row(50 + i, b"%d" % i) for i in range(3)]
    assert expected == decode([make_slice(data)])


@pytest.mark.parametrize("codec", [0, 1])
def test_agrees_with_another_client(decode: Decode, codec: int) -> None:
    """What kafka-python writes, it and we read alike."""
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for i in range(200):
        headers = [(f"k{j}", None if j == 1 else b"x" * j) for j in range(i % 4)]
        key, value = (None, b"", b"key")[i % 3], (b"value" * i, None)[i % 5 == 4]
        builder.append(i, T0 + (i * 37) % 100 - 50, key, value, headers)
    data = bytes(builder.build())

    theirs = [r for b in iter(MemoryRecords(data).next_batch, None) for r in b]
    expected = [
        row(r.offset, r.value, r.key, r.headers or None, r.timestamp, r.timestamp_type)
        for r in theirs
    ]
    assert len(expected) == 200
    assert expected == decode([make_slice(data)])


TOO_LATE = {
    "above": (batch(record(), base=4, base_time=MAX_MS + 1), MAX_MS + 1),
    "below": (batch(record(), base=4, base_time=-MAX_MS - 1), -MAX_MS - 1),
    "sum above": (batch(record(time=1), base=4, base_time=MAX_MS), MAX_MS + 1),
    "sum wraps up": (batch(record(time=2**63 - 1), base=4, base_time=2**63 - 1), 2**64 - 2),
    "sum wraps down": (batch(record(time=-(2**63)), base=4, base_time=-(2**63)), -(2**64)),
    "log append time": (
        batch(record(), base=4, attributes=LOG_APPEND_TIME, max_time=2**63 - 1),
        2**63 - 1,
    ),
}


@pytest.mark.connector_case(
    "KafkaMicroBatchSourceSuiteBase",
    "SPARK-56243: malformed record timestamp throws detailed error",
)
@pytest.mark.parametrize(("data", "timestamp"), TOO_LATE.values(), ids=TOO_LATE)
def test_timestamp_beyond_spark(decode: Decode, data: bytes, timestamp: int) -> None:
    """A time that microseconds cannot hold is Spark's own error, never a wrapped number."""
    with pytest.raises(MalformedTimestamp) as caught:
        decode([make_slice(data)])

    assert caught.value.message.startswith(
        "[KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic clicks partition 3 offset 4 has "
        f"timestamp value {timestamp} that overflows when converting to Spark's "
    )
    assert caught.value.message.endswith(" SQLSTATE: 22008")


def test_timestamp_of_a_dropped_record(decode: Decode) -> None:
    """A record that nobody wants may have any time."""
    data = batch(record(0, time=2**63 - 1), record(1))

    assert [row(1)] == decode([make_slice(data, start=1)])


@pytest.mark.parametrize("headers", [False, True])
def test_size_limit(decode: Decode, headers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch too large for Arrow's 32-bit offsets raises KfetchError before it uses memory."""
    data = batch(record(key=b"k" * 10, value=b"v" * 20, headers=[(b"h" * 3, b"i" * 4)]))
    size = 36 + 10 + 20 + len(TP.topic) + (4 + 8 + 3 + 4 if headers else 0)
    monkeypatch.setattr(arrow, "BATCH_BYTES_MAX", size)
    assert len(decode([make_slice(data)], headers=headers)) == 1
    monkeypatch.setattr(arrow, "BATCH_BYTES_MAX", size - 1)

    with pytest.raises(KfetchError, match=rf"1 records .* {size} bytes") as caught:
        decode([make_slice(data)], headers=headers)
    assert not isinstance(caught.value, CorruptBatch)
