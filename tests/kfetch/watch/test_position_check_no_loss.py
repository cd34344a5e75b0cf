"""Answers that look like a loss and are none, and the number of requests about them."""

from __future__ import annotations

import logging

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from kfetch import losses
from kfetch.offsets import Offsets, Position
from tests.kfetch.watch.damage import Reader
from tests.kfetch.watch.helpers import ALWAYS, T0, T1, at, fill, logged, loss_counts, query, read
from tests.kfetch.wire.little import LittleKafka


def test_unclean_election_without_loss(kafka: LittleKafka, lenient: Reader) -> None:
    """A new epoch over a log that still reaches the position is no loss."""
    kafka.elect(T0, 2)
    kafka.log(T0).append(b"d")
    strict = query(kafka)

    assert {T0: (3, 4)} == read(
        strict, lenient.offsets, logged(strict.next_end(lenient.offsets, None))
    )


def test_epoch_that_wrote_nothing(kafka: LittleKafka, lenient: Reader) -> None:
    """A position under an epoch without records is not taken for divergence."""
    for node in (2, 1, 2):
        kafka.elect(T0, node)
    kafka.log(T1).append(b"y")
    lenient.batch()
    kafka.elect(T0, 1)
    strict = query(kafka)
    kafka.log(T0).append(b"d")

    assert T0 in read(strict, lenient.offsets, logged(strict.next_end(lenient.offsets, None)))


def test_leaders_are_checked_once(kafka: LittleKafka, lenient: Reader) -> None:
    """The driver asks for epochs when a leader changes, not in every micro-batch."""
    before = len(kafka.asked(OffsetForLeaderEpochRequest))
    for _ in range(5):
        lenient.batch()
    assert before == len(kafka.asked(OffsetForLeaderEpochRequest))
    kafka.elect(T0, 2)
    lenient.batch()

    asked = kafka.asked(OffsetForLeaderEpochRequest)[before:]
    assert [[("t", 0)]] == [
        [(t.topic, p.partition) for t in request.topics for p in t.partitions] for request in asked
    ]


def test_a_new_query_asks_for_no_epochs(kafka: LittleKafka) -> None:
    """Leaders have just named its start. A restart with the same start asks them, and so does a
    leader's successor.
    """
    new = query(kafka)
    start = logged(new.initial_offsets())
    new.next_end(start, None)
    assert [] == kafka.asked(OffsetForLeaderEpochRequest)

    query(kafka).next_end(start, None)
    assert kafka.asked(OffsetForLeaderEpochRequest)

    succeeded = query(kafka)
    start = logged(succeeded.initial_offsets())
    before = len(kafka.asked(OffsetForLeaderEpochRequest))
    kafka.elect(T0, 2)
    succeeded.next_end(start, None)
    assert before < len(kafka.asked(OffsetForLeaderEpochRequest))


def test_old_answer_is_asked_again(kafka: LittleKafka) -> None:
    """The driver asks again for a log end below the position before it is a loss (KAFKA-7703)."""
    driver = query(kafka)
    start = logged(driver.next_end(logged(driver.initial_offsets()), None))
    kafka.log(T1).append(b"y")

    def old(request: object) -> object:
        reply = kafka.list_offsets(1, request)
        reply.topics[0].partitions[0].offset = 1
        return reply

    kafka.nodes[1].answer(ListOffsetsRequest, old, old)

    assert {T0: 3, T1: 2} == at(driver.next_end(start, None))


def test_positions_of_an_old_broker() -> None:
    """If a broker can't tell epochs, a log that reaches the position has it."""
    with LittleKafka(1, {OffsetForLeaderEpochRequest: (0, 2)}) as kafka:
        fill(kafka)
        driver = query(kafka)
        start = logged(driver.next_end(logged(driver.initial_offsets()), None))
        kafka.elect(T0, 1)
        kafka.log(T0).append(b"d")

        assert {T0: (3, 4)} == read(driver, start, logged(driver.next_end(start, None)))


def test_metadata_without_a_topic_is_asked_again(
    kafka: LittleKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One metadata reply without the topic, from a broker that lags behind, is no loss."""
    monkeypatch.setattr(losses, "GONE_AFTER_S", 10.0)
    driver = query(kafka, **ALWAYS)
    start = logged(driver.next_end(logged(driver.initial_offsets()), None))
    topic = kafka.topics.pop("t")

    def back(request: object) -> object:
        reply = kafka.metadata(request)
        kafka.topics["t"] = topic
        return reply

    kafka.nodes[1].answer(MetadataRequest, back)

    assert driver.next_end(start, None) is None
    kafka.log(T0).append(b"d")
    assert {T0: 4, T1: 1} == at(driver.next_end(start, None))


def deposed(kafka: LittleKafka) -> Offsets:
    """Returns offsets reached under the successor of a leader that does not know of it."""
    kafka.isolate(1)
    kafka.elect(T0, 2)
    kafka.log(T0).append(b"d")
    ids = {"t": kafka.topics["t"].topic_id}
    return Offsets(positions={T0: Position(4, 1), T1: Position(1, 0)}, topic_ids=ids)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_deposed_leader_is_no_witness(kafka: LittleKafka, fail: str) -> None:
    """A deposed leader that answers "no such epoch" costs no position. Its successor is asked."""
    start = deposed(kafka)
    driver = query(kafka, failOnDataLoss=fail)

    assert driver.next_end(start, None) is None
    kafka.log(T1).append(b"y")
    assert {T0: 4, T1: 2} == at(driver.next_end(start, None))
    assert not loss_counts(driver)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_an_epoch_that_no_broker_knows(
    kafka: LittleKafka, caplog: pytest.LogCaptureFixture, fail: str
) -> None:
    """If no broker knows a position's epoch, kfetch warns once and goes on from the position."""
    ids = {"t": kafka.topics["t"].topic_id}
    start = Offsets(positions={T0: Position(2, 7), T1: Position(1, 0)}, topic_ids=ids)
    driver = query(kafka, failOnDataLoss=fail)
    with caplog.at_level(logging.WARNING):
        ends = [logged(driver.next_end(start, None)) for _ in range(3)]

    assert {T0: (2, 3)} == read(driver, start, ends[-1])
    warnings = [text for text in caplog.messages if "leader epoch 7" in text]
    assert 1 == len(warnings), caplog.messages
    assert not loss_counts(driver)


def test_the_epoch_of_the_known_leader_goes_along(kafka: LittleKafka, lenient: Reader) -> None:
    """OffsetsForLeaderEpoch carries the leader epoch, so that only this leader answers."""
    kafka.elect(T0, 2)
    lenient.batch()
    (request,) = kafka.nodes[2].asked(OffsetForLeaderEpochRequest)[-1:]

    assert [(0, 1)] == [
        (p.leader_epoch, p.current_leader_epoch) for t in request.topics for p in t.partitions
    ]
