"""Every record once, though leaders move, brokers die and sessions are evicted."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from tests.kfetch.fetch.split_reader.helpers import (
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
    """Every record of the ranges is delivered once, in order within each partition."""
    with LittleKafka(2, {FetchRequest: (0, version)}) as kafka:
        kafka.create("t", 2)
        for n in range(5):
            kafka.log(T0).append(b"%d" % n, b"x")
            kafka.log(T1).append(b"%d" % n)
        ranges = [part(kafka, T0, 0, 10), part(kafka, T1, 0, 5)]
        reading = query(kafka, kafka__max__partition__fetch__bytes=max_bytes)

        assert expected(kafka, *ranges) == by_partition(rows(reading.read(ranges)))


@pytest.mark.parametrize(("start", "end"), [(0, 6), (1, 5), (2, 4), (3, 4), (5, 6), (0, 1)])
def test_cut_at_both_ends(kafka: LittleKafka, start: int, end: int) -> None:
    """A range that begins or ends within a batch is cut to the record."""
    item = part(kafka, T0, start, end)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_two_ranges_of_one_partition(kafka: LittleKafka) -> None:
    """Two ranges of a partition in one split are both read, one after the other."""
    ranges = [part(kafka, T0, 0, 3), part(kafka, T0, 4, 6), part(kafka, T1, 1, 2)]

    assert sorted(expected(kafka, *ranges)) == sorted(rows(query(kafka).read(ranges)))


def test_empty_split(kafka: LittleKafka) -> None:
    """Ranges without offsets ask nobody."""
    assert [] == rows(query(kafka).read([part(kafka, T0, 3, 3)]))
    assert [] == kafka.asked(FetchRequest)


def test_session_outlives_the_task(kafka: LittleKafka) -> None:
    """The next task's requests continue the session instead of opening one."""
    reading = query(kafka)
    rows(reading.read([part(kafka, T0, 0, 4)]))
    rows(reading.read([part(kafka, T0, 4, 6)]))

    assert 1 == len([r for r in kafka.asked(FetchRequest) if r.session_epoch == 0])
    assert 1 == reading.stats().sessions_opened
    assert 6 == reading.stats().records


def test_task_that_ends_early(kafka: LittleKafka) -> None:
    """A task that is given up half-way leaves nothing that the next one would deliver."""
    reading = query(kafka)
    batches = reading.read([part(kafka, T0, 0, 6)])
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    again = [part(kafka, T0, 0, 6)]

    assert expected(kafka, *again) == rows(reading.read(again))


@pytest.mark.parametrize("hints", [True, False], ids=["hint in the reply", "metadata"])
def test_leader_moves(kafka: LittleKafka, hints: bool) -> None:
    """A leader that moves is followed, by the reply's hint (KIP-951) or by metadata."""
    kafka.hints = hints
    ranges = [part(kafka, T0, 0, 6), part(kafka, T1, 0, 4)]
    kafka.elect(T0, 2)

    assert expected(kafka, *ranges) == by_partition(rows(query(kafka).read(ranges)))
    assert hints is not bool(kafka.asked(MetadataRequest))


def test_leader_moves_midway(kafka: LittleKafka) -> None:
    """The same in the middle of a range, with nothing twice."""
    item = part(kafka, T0, 0, 6)
    batches = query(kafka).read([item])
    first = rows([next(batches)])
    kafka.elect(T0, 2)

    assert expected(kafka, item) == first + rows(batches)


def test_no_leader_for_a_while(kafka: LittleKafka) -> None:
    """While a partition has no leader its range waits."""
    item = part(kafka, T0, 0, 6)
    kafka.elect(T0, None)
    asked = []

    def metadata(request: Any) -> Any:
        asked.append(request)
        if len(asked) == 4:
            kafka.elect(T0, 2)
        return kafka._metadata(request)

    for node in kafka.nodes.values():
        node.always(MetadataRequest, metadata)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_broker_dies_and_returns(kafka: LittleKafka) -> None:
    """A broker that dies in the middle and comes back is read on from the same offset."""
    item = part(kafka, T0, 0, 6)
    batches = query(kafka).read([item])
    first = rows([next(batches)])
    kafka.nodes[1].stop()
    kafka.evict()
    kafka.nodes[1].start()

    assert expected(kafka, item) == first + rows(batches)


@pytest.mark.parametrize("hostile", [Close(), wrong_id(lambda r: None)], ids=["close", "wrong id"])
def test_lost_replies(kafka: LittleKafka, hostile: Any) -> None:
    """Replies that are lost on the way are asked for again."""
    item = part(kafka, T0, 0, 6)
    if not isinstance(hostile, Close):
        hostile = wrong_id(lambda request: kafka._fetch(1, request))
    kafka.nodes[1].answer(FetchRequest, hostile, hostile)

    assert expected(kafka, item) == rows(query(kafka).read([item]))


def test_evicted_session(kafka: LittleKafka) -> None:
    """A session that is evicted in the middle costs nothing but a full request."""
    item = part(kafka, T0, 0, 6)
    reading = query(kafka)
    batches = reading.read([item])
    first = rows([next(batches)])
    kafka.evict()

    assert expected(kafka, item) == first + rows(batches)


def test_metadata_columns(kafka: LittleKafka) -> None:
    """The leader epoch and the sizes of key and value come as columns of their own."""
    reading = query(kafka, includeLeaderEpoch="true", includeSerializedSizes="true")
    (batch,) = reading.read([part(kafka, T0, 0, 2)])

    assert [0, 0] == batch.column("leaderEpoch").to_pylist()
    assert [None, None] == batch.column("serializedKeySize").to_pylist()
    values = batch.column("value").to_pylist()
    assert [len(value) for value in values] == batch.column("serializedValueSize").to_pylist()
