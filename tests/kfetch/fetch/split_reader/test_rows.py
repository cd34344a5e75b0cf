"""Every record comes once, although leaders move, brokers die and sessions are evicted."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from tests.kfetch.fetch.helpers import (
    T0,
    T1,
    by_partition,
    expected,
    part,
    query,
    rows,
)
from tests.kfetch.wire.little import LittleKafka
from tests.kfetch.wire.scripted import Close, wrong_id


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
@pytest.mark.parametrize("max_bytes", ["1", "1048576"])
def test_rows(version: int, max_bytes: str) -> None:
    """Every record of the ranges comes once, in order within each partition."""
    with LittleKafka(2, {FetchRequest: (0, version)}) as kafka:
        kafka.create("t", 2)
        for n in range(5):
            kafka.log(T0).append(b"%d" % n, b"x")
            kafka.log(T1).append(b"%d" % n)
        ranges = [part(kafka, T0, 0, 10), part(kafka, T1, 0, 5)]
        inline_query = query(kafka, kafka__max__partition__fetch__bytes=max_bytes)

        assert expected(kafka, *ranges) == by_partition(rows(inline_query.read(ranges)))


@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
def test_a_full_reply_that_omits_partitions(version: int) -> None:
    """Every record comes once, and the session stays open, if the first reply omits partitions."""
    with LittleKafka(1, {FetchRequest: (0, version)}) as kafka:
        kafka.omits = True
        kafka.create("t", 2)
        for n in range(5):
            kafka.log(T0).append(b"%d" % n)
            kafka.log(T1).append(b"%d" % n)
        ranges = [part(kafka, T0, 0, 5), part(kafka, T1, 0, 5)]
        inline_query = query(kafka, kafka__fetch__max__bytes="1")

        assert expected(kafka, *ranges) == by_partition(rows(inline_query.read(ranges)))
        assert version < 7 or 1 == inline_query.stats().sessions_opened


@pytest.mark.parametrize(("start", "end"), [(0, 6), (1, 5), (2, 4), (3, 4), (5, 6), (0, 1)])
def test_cut_at_both_ends(kafka: LittleKafka, start: int, end: int) -> None:
    """A range may begin or end within a batch. It gets exactly its records."""
    item = part(kafka, T0, start, end)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_two_ranges_of_one_partition(kafka: LittleKafka) -> None:
    """Two ranges of one partition in one split are read one after the other."""
    ranges = [part(kafka, T0, 0, 3), part(kafka, T0, 4, 6), part(kafka, T1, 1, 2)]

    assert sorted(expected(kafka, *ranges)) == sorted(rows(query(kafka).read(ranges)))


def test_empty_split(kafka: LittleKafka) -> None:
    """Ranges without offsets cause no request."""
    assert [] == rows(query(kafka).read([part(kafka, T0, 3, 3)]))
    assert [] == kafka.asked(FetchRequest)


def test_session_outlives_the_task(kafka: LittleKafka) -> None:
    """The next task's requests continue the session and open no new one."""
    inline_query = query(kafka)
    rows(inline_query.read([part(kafka, T0, 0, 4)]))
    rows(inline_query.read([part(kafka, T0, 4, 6)]))

    assert 1 == len([r for r in kafka.asked(FetchRequest) if r.session_epoch == 0])
    assert 1 == inline_query.stats().sessions_opened
    assert 6 == inline_query.stats().records


def test_task_that_ends_early(kafka: LittleKafka) -> None:
    """The next task delivers no record of a task that Spark closed half-way."""
    inline_query = query(kafka)
    batches = inline_query.read([part(kafka, T0, 0, 6)])
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    again = [part(kafka, T0, 0, 6)]

    assert expected(kafka, *again) == rows(inline_query.read(again))


@pytest.mark.parametrize("hints", [True, False], ids=["hint in the reply", "metadata"])
def test_leader_moves(kafka: LittleKafka, hints: bool) -> None:
    """The reader follows a moved leader, by the hint in the reply (KIP-951) or by metadata."""
    kafka.hints = hints
    ranges = [part(kafka, T0, 0, 6), part(kafka, T1, 0, 4)]
    kafka.elect(T0, 2)

    assert expected(kafka, *ranges) == by_partition(rows(query(kafka).read(ranges)))
    assert hints is not bool(kafka.asked(MetadataRequest))


def test_leader_moves_midway(kafka: LittleKafka) -> None:
    """If a leader moves in the middle of a range, no record comes twice."""
    item = part(kafka, T0, 0, 6)
    batches = query(kafka).read([item])
    first = rows([next(batches)])
    kafka.elect(T0, 2)

    assert expected(kafka, item) == first + rows(batches)


def test_no_leader_for_a_while(kafka: LittleKafka) -> None:
    """While a partition has no leader, its range waits."""
    item = part(kafka, T0, 0, 6)
    kafka.elect(T0, None)
    requests = []

    def metadata(request: Any) -> Any:
        requests.append(request)
        if len(requests) == 4:
            kafka.elect(T0, 2)
        return kafka.metadata(request)

    for node in kafka.nodes.values():
        node.always(MetadataRequest, metadata)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_broker_dies_and_returns(kafka: LittleKafka) -> None:
    """If a broker dies and comes back, the range goes on from the same offset."""
    item = part(kafka, T0, 0, 6)
    batches = query(kafka).read([item])
    first = rows([next(batches)])
    kafka.nodes[1].stop()
    kafka.evict()
    kafka.nodes[1].start()

    assert expected(kafka, item) == first + rows(batches)


@pytest.mark.parametrize("hostile", [Close(), wrong_id(lambda r: None)], ids=["close", "wrong id"])
def test_lost_replies(kafka: LittleKafka, hostile: Any) -> None:
    """The reader requests lost replies again."""
    item = part(kafka, T0, 0, 6)
    if not isinstance(hostile, Close):
        hostile = wrong_id(lambda request: kafka.fetch(1, request))
    kafka.nodes[1].answer(FetchRequest, hostile, hostile)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_evicted_session(kafka: LittleKafka) -> None:
    """If the broker evicts the session, the reader sends one full request and loses no record."""
    item = part(kafka, T0, 0, 6)
    inline_query = query(kafka)
    batches = inline_query.read([item])
    first = rows([next(batches)])
    kafka.evict()

    assert expected(kafka, item) == first + rows(batches)


def test_metadata_columns(kafka: LittleKafka) -> None:
    """The leader epoch and the sizes of key and value come as columns of their own."""
    inline_query = query(kafka, includeLeaderEpoch="true", includeSerializedSizes="true")
    (batch,) = inline_query.read([part(kafka, T0, 0, 2)])

    assert [0, 0] == batch.column("leaderEpoch").to_pylist()
    assert [None, None] == batch.column("serializedKeySize").to_pylist()
    values = batch.column("value").to_pylist()
    assert [len(value) for value in values] == batch.column("serializedValueSize").to_pylist()


def test_a_broker_that_moves_leaves_no_fetcher(kafka: LittleKafka) -> None:
    """A worker without an agent keeps one connection per broker, however often brokers move, and
    the totals of all of them."""
    inline_query, node = query(kafka), kafka.nodes[1]
    for moves in range(3):
        item = part(kafka, T0, 0, 6)
        assert expected(kafka, item) == rows(inline_query.read([item]))
        assert moves + 1 == inline_query.stats().sessions_opened
        assert len(inline_query._running) <= 2
        node.stop()
        node.move()
        node.start()
