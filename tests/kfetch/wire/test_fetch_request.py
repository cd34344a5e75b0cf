"""Fetch requests: known frames, the cost model's sizes, and what kafka-python reads in them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kfetch.model import FetchPosition, TopicPartition
from kfetch.options import FetchOptions
from kfetch.session.plan import FetchPlan
from kfetch.session.replies import SessionReply
from kfetch.session.session import FetchSession
from kfetch.wire import fetch
from tests.kfetch.wire.scripted import decode_request

VERSIONS = range(fetch.LOWEST_VERSION, fetch.HIGHEST_VERSION + 1)
SESSION_ID = 0x01020304
OPTIONS = FetchOptions()
TOPIC = UUID(int=5)
T0, T1, U0 = TopicPartition("test", 0), TopicPartition("test", 1), TopicPartition("u", 0)


def at(offset: int, topic_id: UUID = TOPIC) -> FetchPosition:
    """A position with its epochs set."""
    return FetchPosition(
        topic_id=topic_id, offset=offset, max_bytes=1 << 20, leader_epoch=4, last_fetched_epoch=3
    )


def session(version: int, held: dict[TopicPartition, FetchPosition]) -> FetchSession:
    """A session over ``held`` at epoch 7, as 7 requests would leave it."""
    made = FetchSession(topic_ids=version >= 13)
    for epoch in range(7):
        plan = made.plan(held if epoch == 0 else {})
        keys = [(p.topic_id if version >= 13 else tp.topic, tp.partition) for tp, p in held.items()]
        made.accept(
            plan, SessionReply(session_id=SESSION_ID, partitions=keys if epoch == 0 else [])
        )
    return made


def frame_of(plan: FetchPlan, version: int, rack: str = "") -> bytes:
    """The request as it leaves: client id kfetch, correlation id 42."""
    message = fetch.request(plan, version, OPTIONS, rack)
    message.with_header(correlation_id=42, client_id="kfetch")
    return bytes(message.encode(header=True, framed=True))


BODY = "0001 %s 0000002a 0006 6b6665746368"
LIMITS = "000001f4 00000001 03200000 00 01020304 00000007"

IDLE_REQUESTS = [
    (range(7, 11), 53, f"00000031 {BODY} ffffffff {LIMITS} 00000000 00000000"),
    (range(11, 12), 55, f"00000033 {BODY} ffffffff {LIMITS} 00000000 00000000 0000"),
    (range(12, 15), 50, f"0000002e {BODY} 00 ffffffff {LIMITS} 01 01 01 00"),
    (range(15, 19), 46, f"0000002a {BODY} 00 {LIMITS} 01 01 01 00"),
]


@pytest.mark.parametrize(
    ("version", "size", "expected"),
    [(v, size, text % f"{v:04x}") for versions, size, text in IDLE_REQUESTS for v in versions],
)
def test_idle_request(version: int, size: int, expected: str) -> None:
    """An idle session's request is the frame of the cost model, byte for byte."""
    frame = frame_of(session(version, {T0: at(0)}).plan({}), version)

    assert bytes.fromhex(expected) == frame
    assert size == len(frame)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rack(version: int) -> None:
    """A rack costs its own bytes, from version 11 on. Earlier versions have no field for it."""
    plan = session(version, {T0: at(0)}).plan({})
    frame = frame_of(plan, version, "rack-a")

    assert ("rack-a" if version >= 11 else "") == getattr(decode_request(frame[4:]), "rack_id", "")
    assert (6 if version >= 11 else 0) == len(frame) - len(frame_of(plan, version))


@pytest.mark.parametrize(
    ("version", "size"),
    [
        *((7, 24_063), (9, 28_063), (11, 28_065), (12, 33_058)),
        *((13, 33_069), (14, 33_069), (15, 33_065), (16, 33_065), (17, 33_065), (18, 33_065)),
    ],
)
def test_size_of_a_full_request(version: int, size: int) -> None:
    """1,000 partitions cost what the cost model says."""
    positions = {TopicPartition("test", p): at(p) for p in range(1000)}
    plan = FetchSession(topic_ids=version >= 13).plan(positions)

    assert size == len(frame_of(plan, version))


def _decoded(plan: FetchPlan, version: int) -> Any:
    return decode_request(frame_of(plan, version)[4:])


@pytest.mark.parametrize("version", VERSIONS)
def test_full_request_decoded(version: int) -> None:
    """kafka-python reads the request that was meant, in every version."""
    positions = {T0: at(10), U0: at(30, UUID(int=6)), T1: at(20)}
    request = _decoded(FetchSession(topic_ids=version >= 13).plan(positions), version)

    assert (500, 1, 52_428_800, 0) == (
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
    )
    if version >= 7:
        assert (0, 0) == (request.session_id, request.session_epoch)
    ids = [(t.topic_id if version >= 13 else t.topic) for t in request.topics]
    assert ([TOPIC, UUID(int=6)] if version >= 13 else ["test", "u"]) == ids
    got = [
        (p.partition, p.fetch_offset, p.partition_max_bytes)
        for topic in request.topics
        for p in topic.partitions
    ]
    assert [(0, 10, 1 << 20), (1, 20, 1 << 20), (0, 30, 1 << 20)] == got
    first = request.topics[0].partitions[0]
    assert (4 if version >= 9 else -1) == first.current_leader_epoch
    assert (3 if version >= 12 else -1) == first.last_fetched_epoch


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 7])
def test_incremental_request_decoded(version: int) -> None:
    """An incremental request names what changed and what is to be forgotten."""
    held = session(version, {T0: at(10), T1: at(20), U0: at(30, UUID(int=6))})
    request = _decoded(held.plan({T1: at(21), T0: None, U0: at(30, UUID(int=6))}), version)

    assert (SESSION_ID, 7) == (request.session_id, request.session_epoch)
    assert [[(1, 21)]] == [
        [(p.partition, p.fetch_offset) for p in t.partitions] for t in request.topics
    ]
    forgotten = [
        (t.topic_id if version >= 13 else t.topic, t.partitions)
        for t in request.forgotten_topics_data
    ]
    assert [(TOPIC if version >= 13 else "test", [0])] == forgotten


@pytest.mark.parametrize(("version", "body"), [(7, 47), (11, 49), (12, 40), (13, 51), (15, 47)])
def test_cost_of_forgetting(version: int, body: int) -> None:
    """One forgotten partition costs what the cost model says (its body, without the header)."""
    held = session(version, {T0: at(10), T1: at(20)})
    header = 4 + (17 if version >= 12 else 16)

    assert body == len(frame_of(held.plan({T0: None}), version)) - header


@pytest.mark.parametrize(
    ("version", "body"), [(7, 67), (9, 71), (11, 73), (12, 69), (13, 80), (15, 76), (18, 76)]
)
def test_cost_of_a_change(version: int, body: int) -> None:
    """One changed partition costs what the cost model says."""
    held = session(version, {T0: at(10), T1: at(20)})
    header = 4 + (17 if version >= 12 else 16)

    assert body == len(frame_of(held.plan({T0: at(11)}), version)) - header
