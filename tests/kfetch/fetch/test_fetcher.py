"""A Fetcher against a scripted broker: one session, one request in flight, no lost change."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from kfetch.errors import ConnectionLost, WireError
from kfetch.fetch import fetcher as fetching
from kfetch.fetch.fetcher import Fetcher
from kfetch.model import FetchPosition, TopicPartition
from kfetch.options import FetchOptions, NetworkOptions
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close, Raw, Silence, half, wrong_id

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))
FETCH = FetchOptions(max_wait_ms=10)
NETWORK = NetworkOptions(request_timeout_s=60.0, connect_timeout_s=60.0, retry_backoff_s=0.001)
VERSIONS = [(7, False), (12, False), (13, True), (18, True)]


def soon(seconds: float = 60.0) -> float:
    """A deadline."""
    return time.monotonic() + seconds


@pytest.fixture(params=VERSIONS, ids=[f"v{version}" for version, _ in VERSIONS])
def kafka(request: pytest.FixtureRequest) -> Iterator[LittleKafka]:
    """One node with three partitions of one record, speaking Fetch up to some version."""
    with LittleKafka(1, {FetchRequest: (0, request.param[0])}) as running:
        for log in running.create("t", 3):
            log.append(b"a")
        yield running


@pytest.fixture
def fetcher(kafka: LittleKafka) -> Iterator[Fetcher]:
    """A fetcher of that node."""
    made = Fetcher(kafka.nodes[1].broker, FETCH, NETWORK)
    yield made
    made.close()


def at(kafka: LittleKafka, offset: int) -> FetchPosition:
    """A position in t."""
    return FetchPosition(topic_id=kafka.topics["t"].topic_id, offset=offset, max_bytes=1000)


def set_positions(kafka: LittleKafka, fetcher: Fetcher, **offsets: int | None) -> None:
    """Set the positions t0=offset and so on; None removes the partition."""
    for name, offset in offsets.items():
        tp = TopicPartition("t", int(name[1:]))
        fetcher.set_position(tp, None if offset is None else at(kafka, offset))


def fetch(fetcher: Fetcher) -> dict[TopicPartition, bytes]:
    """One request and its reply: the partitions with records."""
    fetcher.send(soon())
    accepted = fetcher.receive(soon())
    assert accepted is not None
    return {tp: bytes(p.records) for tp, p in accepted.partitions.items() if p.records}


def requests(kafka: LittleKafka) -> list[tuple[tuple[int, int], list[int], list[int]]]:
    """Every fetch request: (session, epoch), partitions named, partitions forgotten."""
    return [
        (
            (r.session_id, r.session_epoch),
            [p.partition for t in r.topics for p in t.partitions],
            [p for t in r.forgotten_topics_data for p in t.partitions],
        )
        for r in kafka.asked(FetchRequest)
    ]


def test_incremental_requests_name_changes(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """The first request names all partitions, later ones only moved, new and removed ones."""
    set_positions(kafka, fetcher, t0=0, t1=0)
    assert {T0, T1} == set(fetch(fetcher))
    set_positions(kafka, fetcher, t0=1, t1=1)
    assert {} == fetch(fetcher)
    assert {} == fetch(fetcher)
    set_positions(kafka, fetcher, t0=None, t2=0)
    assert {T2} == set(fetch(fetcher))

    session = kafka.sessions()[0].id
    assert [
        ((0, 0), [0, 1], []),
        ((session, 1), [0, 1], []),
        ((session, 2), [], []),
        ((session, 3), [2], [0]),
    ] == requests(kafka)


def test_only_the_last_position_is_sent(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """A request has only the last position of a partition, and none that the broker holds."""
    set_positions(kafka, fetcher, t0=0)
    fetch(fetcher)
    set_positions(kafka, fetcher, t0=1)
    set_positions(kafka, fetcher, t0=0)
    fetch(fetcher)

    assert [] == requests(kafka)[-1][1]


def test_a_position_set_while_a_request_is_in_flight(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """A position that changes while a request is in flight goes with the next one."""
    set_positions(kafka, fetcher, t0=0)
    fetcher.send(soon())
    assert fetcher.in_flight
    set_positions(kafka, fetcher, t0=1, t1=0)
    assert fetcher.receive(soon()) is not None
    assert not fetcher.in_flight
    fetch(fetcher)

    assert [0, 1] == requests(kafka)[-1][1]


@pytest.mark.parametrize(
    "hostile",
    [Close(), Raw(b"\xff" * 8), half(FetchResponse(responses=[]), close=True)],
    ids=["close", "negative length", "half"],
)
def test_lost_reply(kafka: LittleKafka, fetcher: Fetcher, hostile: Any) -> None:
    """After a lost reply a new session begins, with every partition and every change."""
    set_positions(kafka, fetcher, t0=0, t1=0)
    fetch(fetcher)
    session = kafka.sessions()[0].id
    set_positions(kafka, fetcher, t0=1, t2=0)
    kafka.nodes[1].answer(FetchRequest, hostile)
    fetcher.send(soon())
    with pytest.raises(ConnectionLost):
        fetcher.receive(soon())
    assert not fetcher.in_flight
    fetch(fetcher)

    assert ((session, 0), [0, 1, 2], []) == requests(kafka)[-1]
    assert 1 == len(kafka.sessions())
    assert 2 == fetcher.totals.stats().connections_opened


def test_reply_too_late(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """A reply after the deadline is lost. The next request opens a new session."""
    set_positions(kafka, fetcher, t0=0)
    kafka.nodes[1].answer(FetchRequest, Silence())
    fetcher.send(soon())
    with pytest.raises(ConnectionLost, match="no reply within the deadline"):
        fetcher.receive(soon(0.05))

    assert {T0} == set(fetch(fetcher))
    assert (0, 0) == requests(kafka)[-1][0]


def test_undecodable_reply(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """A reply that can't be parsed counts as lost."""
    set_positions(kafka, fetcher, t0=0)
    kafka.nodes[1].answer(FetchRequest, lambda r: Raw(_frame(r, b"\0\0")))
    fetcher.send(soon())
    with pytest.raises(WireError, match="can't be decoded"):
        fetcher.receive(soon())

    assert {T0} == set(fetch(fetcher))


def _frame(request: Any, body: bytes) -> bytes:
    data = request.header.correlation_id.to_bytes(4, "big") + body
    return len(data).to_bytes(4, "big") + data


def test_a_reply_with_another_correlation_id(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """The fetcher never accepts a reply with another correlation id."""
    set_positions(kafka, fetcher, t0=0)
    kafka.nodes[1].answer(FetchRequest, wrong_id(lambda r: kafka.fetch(1, r)))
    fetcher.send(soon())
    with pytest.raises(ConnectionLost, match="does not belong"):
        fetcher.receive(soon())

    assert {T0} == set(fetch(fetcher))


def test_evicted_session(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """After an eviction the fetcher opens a new session with every partition."""
    set_positions(kafka, fetcher, t0=0, t1=0)
    fetch(fetcher)
    set_positions(kafka, fetcher, t0=1)
    kafka.evict()
    fetcher.send(soon())
    assert fetcher.receive(soon()) is None
    fetch(fetcher)

    assert ((0, 0), [0, 1], []) == requests(kafka)[-1]
    stats = fetcher.totals.stats()
    assert (2, 1, 2, 1) == (
        stats.full_requests,
        stats.incremental_requests,
        stats.sessions_opened,
        stats.sessions_lost,
    )
    fetcher.close()
    assert 1 == fetcher.totals.stats().sessions_closed


def test_dead_broker(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """While a broker is down, send raises ConnectionLost. Later the same fetcher goes on."""
    set_positions(kafka, fetcher, t0=0)
    fetch(fetcher)
    kafka.nodes[1].stop()
    with pytest.raises(ConnectionLost):
        fetch(fetcher)
    with pytest.raises(ConnectionLost, match="no connection to"):
        fetcher.send(soon())
    kafka.nodes[1].start()
    set_positions(kafka, fetcher, t1=0)

    assert {T0, T1} == set(fetch(fetcher))


def test_a_connection_that_was_idle(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """If the broker closes an idle connection, the next request leaves on a new one."""
    set_positions(kafka, fetcher, t0=0)
    fetch(fetcher)
    kafka.nodes[1].drop()
    set_positions(kafka, fetcher, t1=0)

    assert {T1} == set(fetch(fetcher)) - {T0}
    assert 2 == kafka.nodes[1].connections


def test_throttling(kafka: LittleKafka, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetcher waits the throttle time before the next request, up to the deadline."""
    pauses: list[float] = []
    set_positions(kafka, fetcher, t0=0)
    fetch(fetcher)

    def throttled(request: Any) -> Any:
        reply = kafka.fetch(1, request)
        reply.throttle_time_ms = 60_000
        return reply

    kafka.nodes[1].answer(FetchRequest, throttled)
    fetch(fetcher)
    monkeypatch.setattr(fetching.time, "sleep", pauses.append)
    fetcher.send(soon(600))
    fetcher.receive(soon())

    assert 50 < pauses[-1] <= 60


def only_throttle(request: Any) -> Any:
    """The reply of a broker whose quota is used up (KIP-219), to a full request."""
    return FetchResponse(throttle_time_ms=20, error_code=0, session_id=0, responses=[])


def test_throttled_full_replies_are_no_refusals(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """However many replies to full requests only throttle, the next one opens the session."""
    set_positions(kafka, fetcher, t0=0)
    for _ in range(5):
        kafka.nodes[1].answer(FetchRequest, only_throttle)
        fetcher.send(soon())
        assert fetcher.receive(soon()) is None

    assert {T0} == set(fetch(fetcher))


def test_a_broker_that_only_throttles(kafka: LittleKafka) -> None:
    """If the waits without a reply add up to the request timeout, the error says who throttles."""
    kafka.nodes[1].always(FetchRequest, only_throttle)
    impatient = replace(NETWORK, request_timeout_s=0.05)
    with closing(Fetcher(kafka.nodes[1].broker, FETCH, impatient)) as fetcher:
        set_positions(kafka, fetcher, t0=0)
        for _ in range(3):
            fetcher.send(soon())
            assert fetcher.receive(soon()) is None
        fetcher.send(soon())
        with pytest.raises(ConnectionLost, match=r"broker 1 .* throttles this client: .* 0\.1 s"):
            fetcher.receive(soon())


def test_left_in_flight(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """The fetcher discards the reply that an earlier task left in flight."""
    set_positions(kafka, fetcher, t0=0)
    fetcher.send(soon())
    set_positions(kafka, fetcher, t0=None, t1=0)

    assert {T1} == set(fetch(fetcher))
    assert ([1], [0]) == requests(kafka)[-1][1:]


def test_a_partition_sent_twice_counts_once(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """If a reply names a partition twice, the first one counts."""
    set_positions(kafka, fetcher, t0=0)

    def doubled(request: Any) -> Any:
        reply = kafka.fetch(1, request)
        (topic,) = reply.responses
        again = kafka.fetch_one(1, (_key(topic, request), 0), request.topics[0].partitions[0], 18)
        again.records = b"late"
        topic.partitions.append(again)
        return reply

    kafka.nodes[1].answer(FetchRequest, doubled)
    records = fetch(fetcher)

    assert {T0} == set(records)
    assert b"late" != records[T0]


def _key(topic: Any, request: Any) -> Any:
    return topic.topic_id if request.API_VERSION >= 13 else topic.topic


def test_close_closes_the_session(kafka: LittleKafka) -> None:
    """Closing a fetcher closes its session at the broker."""
    made = Fetcher(kafka.nodes[1].broker, FETCH, NETWORK)
    set_positions(kafka, made, t0=0)
    fetch(made)
    session = kafka.sessions()[0].id
    made.close()

    assert ((session, -1), [], []) == requests(kafka)[-1]
    assert [] == kafka.sessions()


def test_close_of_a_dead_broker(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """Closing a fetcher never fails, even if the broker is down."""
    set_positions(kafka, fetcher, t0=0)
    fetch(fetcher)
    fetcher.send(soon())
    kafka.nodes[1].stop()
    fetcher.close()
    fetcher.close()

    with pytest.raises(RuntimeError, match="in flight"):
        fetcher.receive(soon())


def test_stats(kafka: LittleKafka, fetcher: Fetcher, caplog: pytest.LogCaptureFixture) -> None:
    """The statistics count requests and bytes as they were on the wire. The log has them, too."""
    caplog.set_level(logging.DEBUG, "kfetch.fetch.fetcher")
    set_positions(kafka, fetcher, t0=0)
    fetch(fetcher)
    fetch(fetcher)
    stats = fetcher.totals.stats()
    frames = [len(f) + 4 for f in kafka.nodes[1].frames if f[:2] == b"\0\1"]

    assert frames == [stats.full_request_bytes, stats.incremental_request_bytes]
    assert (1, 1, 1, 1) == (
        stats.full_requests,
        stats.incremental_requests,
        stats.sessions_opened,
        stats.connections_opened,
    )
    assert stats.reply_bytes > len(kafka.log(T0).batches[0][3])
    session, (full, incremental) = kafka.sessions()[0].id, frames
    connected, requested, replied, opened, again, _ = caplog.messages
    assert connected.endswith(": connected")
    assert f"full fetch (0, 0) of {full} bytes names 1 partitions and forgets 0" in requested
    assert " bytes of 1 partitions after " in replied
    assert f"session {session} opened, 1 partitions" in opened
    assert f"incremental fetch ({session}, 1) of {incremental} bytes names 0" in again


@pytest.mark.parametrize("kafka", [(13, True), (18, True)], indirect=True)
def test_broker_comes_back_with_an_older_version(kafka: LittleKafka, fetcher: Fetcher) -> None:
    """If an older broker replaces a broker, the fetcher goes on with topics by name."""
    set_positions(kafka, fetcher, t0=0, t1=0)
    fetch(fetcher)
    set_positions(kafka, fetcher, t1=1)
    kafka.nodes[1].stop()
    kafka.nodes[1].versions[FetchRequest] = (0, 12)
    kafka.evict()
    kafka.nodes[1].start()

    assert {T0} == set(fetch(fetcher))
    assert ((0, 0), [0, 1], []) == requests(kafka)[-1]
