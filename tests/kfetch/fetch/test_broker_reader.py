"""A BrokerReader against a scripted broker: it backs off after replies that move no range."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from kafka.protocol.consumer import FetchRequest

from kfetch.fetch.arrivals import Arrival, RangeHandedOn
from kfetch.fetch.broker_reader import BrokerReader
from kfetch.fetch.fetcher import Fetcher
from kfetch.fetch.progress import RangeProgress, ReplicaChoice
from kfetch.fetch.replicas import ReadReplicas
from kfetch.model import OffsetRange, TopicPartition
from kfetch.options import FetchOptions, NetworkOptions
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.racks import RackKafka

T0 = TopicPartition("t", 0)
FETCH = FetchOptions(max_wait_ms=10)


VERSIONS = [7, 12, 13, 18]


@pytest.fixture(params=VERSIONS, ids=[f"v{version}" for version in VERSIONS])
def kafka(request: pytest.FixtureRequest) -> Iterator[LittleKafka]:
    """One node with a partition of one record, which supports Fetch up to some version."""
    with LittleKafka(1, {FetchRequest: (0, request.param)}) as running:
        for log in running.create("t", 1):
            log.append(b"a")
        yield running


def test_replies_that_move_nothing_are_no_hot_loop(kafka: LittleKafka) -> None:
    """If a broker answers at once without new records, the reader waits before it asks again."""
    end = kafka.log(T0).batches[0][1]
    item = OffsetRange(
        tp=T0,
        topic_id=kafka.topics["t"].topic_id,
        start=end,
        end=end + 5,
        leader_epoch=0,
        leader=kafka.nodes[1].broker,
    )
    kafka.log(T0).read = lambda offset, size: kafka.log(T0).batches[0][3]  # type: ignore[method-assign]
    fetcher = Fetcher(item.leader, FETCH, NetworkOptions(retry_backoff_s=0.05))
    reader = BrokerReader(fetcher, 1 << 20)
    reader.add(RangeProgress.of(item))
    until, deadline = time.monotonic() + 0.3, time.monotonic() + 60
    while time.monotonic() < until:
        reader.send(deadline)
        reader.receive(deadline)
    fetcher.close()

    assert len(kafka.asked(FetchRequest)) <= 9


def test_only_a_range_that_asks_moves() -> None:
    """A leader names a follower for each partition of a request with a rack. Only the range that
    asks leaves the reader. The other one gets its records from the next request."""
    with RackKafka(2) as kafka:
        for log in kafka.create("t", 3):
            log.append(b"a")
        asks, stays = (_progress(kafka, TopicPartition("t", number)) for number in (0, 2))
        stays.choice = ReplicaChoice(leader=stays.known_leader, until=float("inf"))
        fetcher = Fetcher(asks.leader, FETCH, NetworkOptions())
        reader = BrokerReader(fetcher, 1 << 20, replicas=ReadReplicas("r2"))
        reader.add(asks)
        reader.add(stays)
        arrivals = []
        for _ in range(2):
            reader.send(time.monotonic() + 60)
            arrivals.append(reader.receive(time.monotonic() + 60))
        fetcher.close()

    assert [[asks], [stays]] == [[arrival.progress for arrival in reply] for reply in arrivals]
    assert [2, None] == [_follower(reply[0]) for reply in arrivals]
    assert ["r2", "", ""] == kafka.racks(1)


def test_a_full_reply_that_omits_a_partition_is_no_answer() -> None:
    """A broker may omit partitions from a full reply. Their ranges ask once more, and one that the
    reply names stays at its leader."""
    with RackKafka(2) as kafka:
        for log in kafka.create("t", 3):
            log.append(b"a")
            log.append(b"a" * 1000)
        kafka.omits = True
        kafka.follower_ends[2, T0] = 0  # so only the other partition has a follower
        first, second = (_progress(kafka, TopicPartition("t", number), 1) for number in (0, 2))
        fetcher = Fetcher(first.leader, FETCH, NetworkOptions())
        fetcher.reply_bytes_max = 1000
        reader, moves = BrokerReader(fetcher, 1 << 20, replicas=ReadReplicas("r2")), []
        for progress in (first, second):
            reader.add(progress)
        for _ in range(2):
            reader.send(time.monotonic() + 60)
            moves += [(a.progress, _follower(a)) for a in reader.receive(time.monotonic() + 60)]
        fetcher.close()

    assert [(first, None), (second, 2)] == moves


@pytest.mark.parametrize("change", ["created again", "cut"])
def test_a_late_reply_is_for_the_records_of_then(kafka: LittleKafka, change: str) -> None:
    """A task may leave a request behind. Its reply has nothing for a range of a topic that was
    created again meanwhile, or of a log that an election has cut, although the offset is equal."""
    fetcher = Fetcher(kafka.nodes[1].broker, FETCH, NetworkOptions(retry_backoff_s=0.001))
    reader, deadline = BrokerReader(fetcher, 1 << 20), time.monotonic() + 60
    left = _progress(kafka, T0)
    reader.add(left)
    reader.send(deadline)
    assert fetcher._connection
    assert select.select([fetcher._connection._frames.stream], [], [], 10)[0]  # the reply is here
    reader.drop(left)
    epoch = kafka.log(T0).epoch
    kafka.create("t", 1)
    if change == "cut":
        kafka.topics["t"] = replace(kafka.topics["t"], topic_id=left.range.topic_id)
        kafka.log(T0).epoch = epoch + 1
    kafka.log(T0).append(b"new")
    reader.add(_progress(kafka, T0))

    assert [] == reader.receive(deadline)
    while not (arrivals := reader.receive(deadline) if fetcher.in_flight else []):
        reader.send(deadline)
    fetcher.close()

    (arrival,) = arrivals
    assert arrival.records
    assert b"new" in bytes(arrival.records.data)


def _follower(arrival: Arrival) -> int | None:
    """The follower that the leader names; None if it does not."""
    return arrival.follower_id if isinstance(arrival, RangeHandedOn) else None


def _progress(kafka: LittleKafka, tp: TopicPartition, start: int = 0) -> RangeProgress:
    item = OffsetRange(
        tp=tp,
        topic_id=kafka.topics[tp.topic].topic_id,
        start=start,
        end=kafka.log(tp).end,
        leader_epoch=kafka.log(tp).epoch,
        leader=kafka.nodes[1].broker,
    )
    return RangeProgress.of(item)
