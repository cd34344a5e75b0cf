"""Fetch replies: kafka-python as the oracle, known frames, hostile bytes."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse

from kfetch.errors import WireError
from kfetch.session.replies import SessionReply
from kfetch.wire import fetch
from tests.examples import examples

VERSIONS = range(fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION + 1)
SESSION_ID = 0x01020304
int16, int32, int64 = (st.integers(-(2**b), 2**b - 1) for b in (15, 31, 63))
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=6)
TopicReply = FetchResponse.FetchableTopicResponse
PartitionData = TopicReply.PartitionData


@st.composite
def partitions(draw: st.DrawFn, version: int) -> Any:
    """One partition of a reply: every field, the tagged ones now and then."""
    flexible = version >= 12
    entry = PartitionData(
        version=version,
        partition_index=draw(int32),
        error_code=draw(int16),
        high_watermark=draw(int64),
        last_stable_offset=draw(int64),
        log_start_offset=draw(int64),
        aborted_transactions=draw(
            st.none()
            | st.lists(
                st.builds(
                    lambda p, o: PartitionData.AbortedTransaction(
                        version=version, producer_id=p, first_offset=o
                    ),
                    int64,
                    int64,
                ),
                max_size=3,
            )
        ),
        preferred_read_replica=draw(int32),
        records=draw(st.none() | st.binary(max_size=200)),
    )
    if flexible and draw(st.booleans()):
        entry.diverging_epoch = PartitionData.EpochEndOffset(
            version=version, epoch=draw(int32), end_offset=draw(int64)
        )
    if flexible and draw(st.booleans()):
        entry.current_leader = PartitionData.LeaderIdAndEpoch(
            version=version, leader_id=draw(int32), leader_epoch=draw(int32)
        )
    if flexible and draw(st.booleans()):  # a tag that kfetch has no use for
        entry.snapshot_id = PartitionData.SnapshotId(
            version=version, end_offset=draw(int64), epoch=draw(int32)
        )
    return entry


@st.composite
def replies(draw: st.DrawFn) -> Any:
    """A reply of any version, with any number of topics and partitions."""
    version = draw(st.sampled_from(VERSIONS))
    topics = [
        TopicReply(
            version=version,
            topic=draw(names),
            topic_id=draw(st.uuids()),
            partitions=draw(st.lists(partitions(version), max_size=3)),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    reply = FetchResponse(
        version=version,
        throttle_time_ms=draw(int32),
        error_code=draw(int16),
        session_id=draw(int32),
        responses=topics,
    )
    if version >= 16 and draw(st.booleans()):
        reply.node_endpoints = [
            FetchResponse.NodeEndpoint(
                version=version,
                node_id=node_id,
                host=draw(names),
                port=draw(int32),
                rack=draw(st.none() | names),
            )
            for node_id in draw(st.lists(int32, max_size=3, unique=True))
        ]
    return reply


def encoded(reply: Any) -> bytes:
    """A reply's frame behind its length, as kafka-python writes it."""
    reply.with_header(correlation_id=42)
    return bytes(reply.encode(header=True, framed=True))[4:]


def _pair(struct_: Any, *names_: str) -> tuple[int, ...] | None:
    if struct_ is None:
        return None
    values = tuple(getattr(struct_, name) for name in names_)
    return None if set(values) == {-1} else values


@examples(45)
@given(replies())
def test_replies_as_kafka_python_means_them(reply: Any) -> None:
    """Every field of every version is read as kafka-python wrote it."""
    version = reply.API_VERSION
    read = fetch.read_reply(memoryview(encoded(reply)), version)

    sessions = version >= 7
    assert version == read.version
    assert reply.throttle_time_ms == read.throttle_ms
    assert (reply.error_code if sessions else 0) == read.error
    assert (reply.session_id if sessions else 0) == read.session_id
    flat = [(topic, entry) for topic in reply.responses for entry in topic.partitions]
    assert len(flat) == len(read.partitions)
    for (topic, entry), got in zip(flat, read.partitions, strict=True):
        name = topic.topic_id if version >= 13 else topic.topic
        aborted = entry.aborted_transactions or []
        assert (name, entry.partition_index) == got.key
        assert entry.error_code == got.error
        assert entry.high_watermark == got.high_watermark
        assert entry.last_stable_offset == got.last_stable_offset
        assert (entry.log_start_offset if version >= 5 else -1) == got.log_start_offset
        assert _pair(entry.diverging_epoch, "epoch", "end_offset") == got.diverging
        assert _pair(entry.current_leader, "leader_id", "leader_epoch") == got.leader
        assert tuple((a.producer_id, a.first_offset) for a in aborted) == got.aborted
        preferred = entry.preferred_read_replica if version >= 11 else -1
        assert preferred == got.preferred_read_replica
        assert (entry.records or b"") == got.records
    expected = {e.node_id: (e.host, e.port, e.rack) for e in reply.node_endpoints or []}
    assert expected == {n: (b.host, b.port, b.rack) for n, b in read.endpoints.items()}
    assert (
        SessionReply(
            error=read.error,
            session_id=read.session_id,
            throttle_ms=read.throttle_ms,
            version=version,
            partitions=tuple(got.key for got in read.partitions),
        )
        == read.for_session()
    )


def _sample(version: int) -> Any:
    """A reply with everything in it."""
    entry = PartitionData(
        version=version,
        partition_index=3,
        error_code=6,
        high_watermark=100,
        last_stable_offset=90,
        log_start_offset=10,
        aborted_transactions=[
            PartitionData.AbortedTransaction(version=version, producer_id=1, first_offset=2)
        ],
        preferred_read_replica=-1,
        records=b"r" * 40,
    )
    if version >= 12:
        entry.diverging_epoch = PartitionData.EpochEndOffset(version=version, epoch=1, end_offset=2)
        entry.current_leader = PartitionData.LeaderIdAndEpoch(
            version=version, leader_id=2, leader_epoch=5
        )
    reply = FetchResponse(
        version=version,
        throttle_time_ms=7,
        error_code=0,
        session_id=SESSION_ID,
        responses=[
            TopicReply(
                version=version, topic="clicks", topic_id=UUID(int=9), partitions=[entry, entry]
            )
        ],
    )
    if version >= 16:
        reply.node_endpoints = [
            FetchResponse.NodeEndpoint(version=version, node_id=2, host="h", port=9, rack="r")
        ]
    return reply


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation(version: int) -> None:
    """A reply that is cut anywhere is a WireError that names the version."""
    frame = memoryview(encoded(_sample(version)))
    fetch.read_reply(frame, version)
    for cut in range(len(frame)):
        with pytest.raises(WireError, match=rf"a Fetch reply \(v{version}\) can't be decoded"):
            fetch.read_reply(frame[:cut], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_too_many(version: int) -> None:
    """Bytes behind a reply's end are an error: something was misread."""
    frame = encoded(_sample(version))
    with pytest.raises(WireError, match=rf"\(v{version}\) has 2 bytes too many"):
        fetch.read_reply(memoryview(frame + b"\0\0"), version)


@examples(60)
@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=5)), min_size=1),
)
def test_mutations(version: int, changes: list[tuple[float, bytes]]) -> None:
    """A reply with any bytes changed is read, or is a WireError; never anything else."""
    frame = bytearray(encoded(_sample(version)))
    for where, data in changes:
        at = int(where * len(frame))
        frame[at : at + len(data)] = data
    _read_or_refused(bytes(frame), version)


@examples(45)
@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_noise(version: int, frame: bytes) -> None:
    """The same for bytes that never were a reply."""
    _read_or_refused(frame, version)


def _read_or_refused(frame: bytes, version: int) -> None:
    with contextlib.suppress(WireError):
        fetch.read_reply(memoryview(frame), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_wild_counts_take_no_memory(version: int) -> None:
    """No count or length that a reply claims costs memory before its bytes are there."""
    frame = encoded(_sample(version))
    wild = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"]
    if version >= 12:
        wild = [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff\xff\x03"]
    tracemalloc.start()
    try:
        for at in range(4, len(frame)):
            for data in wild:
                _read_or_refused(frame[:at] + data + frame[at + len(data) :], version)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_views(version: int) -> None:
    """Record bytes are not copied: they are views into the frame."""
    buffer = bytearray(encoded(_sample(version)))
    read = fetch.read_reply(memoryview(buffer), version)

    assert 2 == len(read.partitions)
    for partition in read.partitions:
        assert buffer is partition.records.obj
        assert b"r" * 40 == partition.records


IDLE_REPLIES = [
    (range(7, 12), "0000002a 00000000 0000 01020304 00000000"),
    (range(12, 19), "0000002a 00 00000000 0000 01020304 01 00"),
]


@pytest.mark.parametrize(
    ("version", "frame"), [(v, frame) for versions, frame in IDLE_REPLIES for v in versions]
)
def test_idle_reply(version: int, frame: str) -> None:
    """The reply of an idle session has a session id and nothing else."""
    read = fetch.read_reply(memoryview(bytes.fromhex(frame)), version)

    assert (0, SESSION_ID, ()) == (read.error, read.session_id, read.partitions)
